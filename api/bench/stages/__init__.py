"""Cells with stages beside other ways to run them."""
