"""Kernels as torch sees them: operators, autograd functions, saved tensors."""
