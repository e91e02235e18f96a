"""Scan plans: blocks run tiles of steps of a cell whose units read their own past alone."""
