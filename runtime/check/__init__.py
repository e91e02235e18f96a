"""Argument validation for `scan` and `RNN`.

Each check raises `TensorError`, which names the argument, its value and its rule.
"""
