"""Propagators: each removes values that its constraint rules out."""
