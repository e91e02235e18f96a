"""A single step of a layer: its plan."""
