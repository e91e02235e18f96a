"""Torch's modules changed into those of `rnnc.nn`, and back."""
