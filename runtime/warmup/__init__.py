"""`rnnc.warmup`: the kernels of a model, compiled ahead of its first call."""
