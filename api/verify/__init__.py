"""Whether kernels are right: `rnnc check` and `rnnc fuzz`."""
