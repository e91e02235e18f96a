"""The `rnnc` command."""
