"""The command `rnnc bench`: rows of sizes, or modules as users call them."""
