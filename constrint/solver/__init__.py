"""Compilation to propagators, search, and explanations of what does not fit."""
