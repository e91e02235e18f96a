"""The kernels as torch sees them: operators, autograd functions, saved tensors."""
