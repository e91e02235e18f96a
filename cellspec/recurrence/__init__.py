"""Kinds of recurrence, found from a cell's equations.

A cell without a dense matrix is split into parts: states that read each other. A part whose new
values are linear in its own old ones can be computed by a scan over time instead of step by step.
"""
