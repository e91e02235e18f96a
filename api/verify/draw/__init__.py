"""Random cells and calls: drawn as trees, then written as source text."""
