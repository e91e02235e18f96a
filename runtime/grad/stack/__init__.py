"""Layers of a module as one call: forward, and backward from the last layer to the first."""
