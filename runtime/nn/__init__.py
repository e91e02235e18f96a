"""torch's recurrent modules on the kernels of this package: `rnnc.nn` and `rnnc.convert`."""
