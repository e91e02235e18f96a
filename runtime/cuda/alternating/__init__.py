"""Alternating plans on a device: buffers, products and CUDA graphs."""
