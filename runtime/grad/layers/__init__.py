"""All layers of a call by the kernels of a target: forward and backward."""
