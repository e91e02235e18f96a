"""Inputs that a call draws: their distributions, and cells with means in place of draws."""
