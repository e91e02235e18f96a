"""Single steps of a module: products, one pointwise kernel per layer, and their gradients."""
