"""Expressions: nodes that keep what their author wrote, and their forms as text, sympy and C++."""
