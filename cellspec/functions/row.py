"""`row`: writes a row of the table of functions from its signature."""

from __future__ import annotations

from typing import Any

from ..elementwise import ElementwiseFunction


def row(
    signature: str, doc: str, *, cpp: str = "", torch: str = "", latex: str = "", **more: Any
) -> ElementwiseFunction:
    """Write a row.

    Args:
        signature: the name and the arguments, with their defaults.
        doc: a description in one line.
        cpp: the value in C++; if empty, a header of each target has a function of the same name.
        torch: the value in torch; if empty, torch has a function of the same name.
        latex: the name in mathematics; by default the name itself, upright.
        **more: other attributes of the row.
    """
    name, _, rest = signature.rstrip(")").partition("(")
    arguments = [a.strip().partition("=") for a in rest.split(",")]
    names = tuple(a for a, _, _ in arguments)
    return ElementwiseFunction(
        name=name,
        arguments=names,
        doc=doc,
        cpp=cpp,
        torch=torch or f"torch.{name}({', '.join(names)})",
        latex=latex or rf"\operatorname{{{name.replace('_', chr(92) + '_')}}}",
        defaults=tuple(float(v) for _, equals, v in arguments if equals),
        **more,
    )
