"""Tracing: a Python function runs once on symbols and becomes a cell."""
