"""What `rnnc bench` does: rows of sizes, or modules as users call them."""
