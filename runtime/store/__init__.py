"""Files that stay on disk between processes: kernels, plans and derivations."""
