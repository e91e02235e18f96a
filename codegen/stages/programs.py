"""`Stages`: the pointwise programs of a step, one after the other, with exchanges in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...cellspec.expression.node import Node
from ..program import Program, targets_of
from .exchange import Exchanged, Product, Statistic


@dataclass(frozen=True)
class Stages:
    """The programs of a cell whose step has stages.

    Attributes:
        forward: the stages of the forward. The last computes the new states and saved values.
        exchanged: what units exchange before each stage of the forward but the first.
        backward: the stages of the backward.
        returned: what units exchange before each stage of the backward but the first: products with
            the transposed weights of called gates, and sums of the gradients of statistics.
        values: names of values of a unit that a stage of the forward leaves for an exchange or a
            later stage.
        d_values: the same of the backward.
        statistics: names of the numbers of a head that the forward computes.
        sums: those of the backward.
        saved_statistics: those of `statistics` that the backward reads.
    """

    forward: tuple[Program, ...]
    exchanged: tuple[tuple[Exchanged, ...], ...]
    backward: tuple[Program, ...]
    returned: tuple[tuple[Exchanged, ...], ...]
    values: tuple[str, ...]
    d_values: tuple[str, ...]
    statistics: tuple[str, ...]
    sums: tuple[str, ...]
    saved_statistics: tuple[str, ...]

    @property
    def products(self) -> tuple[Product, ...]:
        """The products with weights of called gates."""
        return tuple(e for each in self.exchanged for e in each if isinstance(e, Product))


def whole(programs: Sequence[Program]) -> Program:
    """All stages as one program: what units exchange are inputs of it.

    Args:
        programs: the stages.
    """
    statements = tuple(s for program in programs for s in program.statements)
    inputs = {i for program in programs for i in program.inputs} - set(targets_of(statements))
    named: dict[str, tuple[Node, ...]] = {}
    for program in programs:
        named |= program.named_after
    outputs = tuple(o for program in programs for o in program.outputs)
    return Program(tuple(sorted(inputs, key=str)), statements, outputs, named)


def described(exchanged: Exchanged, *, back: bool = False) -> str:
    """Return what an exchange gives, as a line of text.

    Args:
        exchanged: a product, or numbers of a head.
        back: whether it is one of the backward, whose products take the transposed weights.
    """
    if isinstance(exchanged, Statistic):
        names, values = ", ".join(exchanged.names), ", ".join(exchanged.arguments)
        return f"{names} = {exchanged.kind} over the units of {values}"
    gate, argument = exchanged.gate, exchanged.argument
    if back:
        factor = f"transposed R_{gate}" if exchanged.dense else f"u_{gate} *"
        return f"{argument} = {factor} d_{gate}"
    return f"{gate} += {f'R_{gate}' if exchanged.dense else f'u_{gate} *'} {argument}"
