"""Layers that run at the same time: their chunks of steps, their groups, their room."""
