"""Checks that kernels are right: `rnnc check` and `rnnc fuzz`."""
