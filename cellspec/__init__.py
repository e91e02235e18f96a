"""Recurrent cells as data: declarations, equations, and the table of functions they use."""
