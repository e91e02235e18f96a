"""Alternating plans: a matrix product and a pointwise kernel per step."""
