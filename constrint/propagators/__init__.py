"""Propagators: what a constraint removes from the domains of its variables."""
