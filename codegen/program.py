"""A straight-line program over real numbers: what the derivation gives and the emitter spells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy

from ..cellspec.text import to_text


@dataclass(frozen=True)
class Statement:
    """`target = value`; a target is assigned once."""

    target: sympy.Symbol
    value: sympy.Basic

    def __str__(self) -> str:
        return f"{self.target} = {to_text(self.value)}"


@dataclass(frozen=True)
class Program:
    """Statements in an order in which they can run.

    Attributes:
        inputs: the symbols that must be given; each is used.
        statements: temporaries and outputs.
        outputs: the targets that are results, in the order of the caller.
    """

    inputs: tuple[sympy.Symbol, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[sympy.Symbol, ...]

    @property
    def operations(self) -> int:
        """How many arithmetic operations and function calls it takes for one unit."""
        return sum(count_operations(s.value) for s in self.statements)

    def reach(self) -> dict[str, set[str]]:
        """For each output by name, the inputs that it depends on."""
        found: dict[sympy.Basic, set[sympy.Basic]] = {i: {i} for i in self.inputs}
        for statement in self.statements:
            found[statement.target] = set().union(
                *(found.get(s, set()) for s in statement.value.free_symbols)
            )
        return {str(o): {str(i) for i in found.get(o, set())} for o in self.outputs}

    def __str__(self) -> str:
        return "\n".join(map(str, self.statements))


def count_operations(value: sympy.Basic) -> int:
    """Operations of one expression as C++ spells it: a power n takes n - 1 products."""
    if value.is_Atom:
        return 0
    inside = sum(count_operations(a) for a in value.args)
    if isinstance(value, sympy.Pow):
        exponent = abs(int(value.exp))
        return count_operations(value.base) + max(exponent - 1, 0) + int(value.exp.is_negative)
    if isinstance(value, sympy.Add):
        # A product with -1 is spelled as a subtraction.
        signs = sum(1 for a in value.args if a.is_Mul and a.args[0] == -1)
        negated = 1 if signs == len(value.args) else 0
        return inside + len(value.args) - 1 - signs + negated
    if isinstance(value, sympy.Mul):
        # A product with a reciprocal is spelled as a division.
        divisions = sum(1 for a in value.args if a.func.__name__ == "reciprocal")
        return inside + len(value.args) - 1 - min(divisions, len(value.args) - 1)
    return inside + 1


def symbols_of(values: Iterable[sympy.Basic]) -> set[sympy.Symbol]:
    """All symbols that the expressions use."""
    return {symbol for value in values for symbol in value.free_symbols}
