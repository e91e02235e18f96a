"""Frozen values of a call, made of plain data and tensors, which every other room reads."""
