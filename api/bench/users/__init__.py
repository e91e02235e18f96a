"""`rnnc bench --users`: modules as users call them, beside torch's with the same settings."""
