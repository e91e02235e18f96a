"""Calls of modules and of packed sequences as operations that tracers, modes and autograd see."""
