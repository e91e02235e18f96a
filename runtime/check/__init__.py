"""Argument validation for `scan` and `RNN`; errors name the argument, its value and its rule."""
