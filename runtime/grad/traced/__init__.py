"""Layers of a module as operators that compilers, modes and tracers see."""
