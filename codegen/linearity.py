"""Whether a program is linear in some of its inputs: what a kernel may add after it has mapped."""

from __future__ import annotations

from collections.abc import Collection

import sympy

from .program import Program

# What a value is in the inputs asked about: none of them, one times what knows none, or else.
_FREE, _LINEAR, _OTHER = range(3)


def linear(program: Program, inputs: Collection[str]) -> bool:
    """Whether every output is a sum of products of one of these inputs and what knows none of them.

    Then the program's value at a sum of such inputs is the sum of its values. It is decided by the
    form of the statements alone: a program that is linear in a hidden way counts as not linear.

    Args:
        program: the program.
        inputs: the names of the inputs.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> from rnnc.codegen.linearity import linear
        >>> linear(derive(rnnc.cells.lstm).backward, ["d_h_next", "d_c_next"])
        True
    """
    degrees = {i: _LINEAR if i.name in inputs else _FREE for i in program.inputs}
    for statement in program.statements:
        degrees[statement.target] = _degree(statement.value, degrees)
    # A number, 0, is what an output is that nothing reaches.
    return all(
        degrees[s.target] == _LINEAR or s.value.is_zero
        for s in program.statements
        if s.target in program.outputs
    )


def _degree(value: sympy.Basic, degrees: dict[sympy.Basic, int]) -> int:
    """What a value is, given what the symbols are."""
    if value.is_Symbol:
        return degrees.get(value, _FREE)
    found = [_degree(a, degrees) for a in value.args]
    if max(found, default=_FREE) == _FREE:
        return _FREE
    if value.is_Mul:
        return _LINEAR if sum(found) == _LINEAR else _OTHER
    if value.is_Add or value.func.__name__ == "where":
        condition = found.pop(0) if not value.is_Add else _FREE
        # 0 is linear beside anything that is.
        terms = [d for d, a in zip(found[::-1], value.args[::-1], strict=False) if not a.is_zero]
        return _LINEAR if condition == _FREE and {*terms} == {_LINEAR} else _OTHER
    return _OTHER
