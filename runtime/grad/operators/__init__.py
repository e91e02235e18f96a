"""Calls as operators of torch, for compilers, modes and tracers."""
