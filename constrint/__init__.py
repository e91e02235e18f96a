"""ConstrINT: integer variables, constraints over them, propagation and search."""
