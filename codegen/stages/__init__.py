"""Cells whose step has stages: their programs, and what units exchange between them."""
