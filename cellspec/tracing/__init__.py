"""From a Python function to a cell."""
