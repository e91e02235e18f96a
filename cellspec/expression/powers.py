"""Powers with any exponent, each in its cheapest form."""

from __future__ import annotations

from .node import LARGEST_EXPONENT, Node, call, power


def raised(base: Node, exponent: Node) -> Node:
    """A power with any exponent: products if it is whole, a root if it is one half, else a call."""
    value = exponent.value if exponent.is_number else None
    if isinstance(value, int | float) and abs(value) <= LARGEST_EXPONENT and value == int(value):
        return power(base, int(value))
    if isinstance(value, float) and abs(value) == 0.5:
        return call("sqrt" if value > 0 else "rsqrt", base)
    return call("pow", base, exponent)
