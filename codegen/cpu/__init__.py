"""CPU plans: how the C++ kernels of a cell are generated."""
