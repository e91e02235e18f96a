"""Lengths and resets of calls of modules: what the caller gives, and the masks made of it."""
