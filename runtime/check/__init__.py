"""Checks of arguments, whose `TensorError`s name the argument, its value and its rule."""
