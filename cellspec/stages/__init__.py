"""Stages of a step: products and reductions of values that the step itself has computed."""
