"""The solver: propagation and search over the propagators of a model."""
