"""Block plans: one thread block per head and a few batch rows."""
