"""Expressions: nodes that keep what their author wrote, as text, as sympy, as C++."""
