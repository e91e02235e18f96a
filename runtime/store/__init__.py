"""What is kept on disk between processes: kernels, plans and derivations."""
