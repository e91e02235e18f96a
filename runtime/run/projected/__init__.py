"""Projected layers: products around calls that run the recurrence before the projection."""
