"""Layers of a module that run at the same time, on chunks of steps."""
