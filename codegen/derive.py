"""`derive`: the pointwise programs of a cell, forward and backward, and what they save."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from ..cellspec.cell import CellSpec
from ..cellspec.expression.node import Node, ordered, symbol
from ..cellspec.functions import TABLE
from .linearity import linear
from .live import live_values
from .origins import joined
from .program import AnyStatement, Program, Statement
from .shape import DIRECTIONS, Direction
from .stages.derive import derive_stages
from .stages.programs import Stages, whole


@dataclass(frozen=True)
class Pointwise:
    """The pointwise part of a cell for one unit: forward, backward and saved values.

    Attributes:
        cell: the cell that it was derived from.
        forward: computes the new states, `<state>_next`, and the saved values that are functions
            of a gate, from gates, states, inputs and params.
        backward: computes the cotangents `d_<name>` of gates, previous states, params and those
            inputs that have a gradient, from the cotangents `d_<state>_next` of the new states,
            the saved values and inputs.
        saved: names of what the forward saves for the backward: a gate, or a function of one, such
            as `sigmoid_f`, if the backward needs nothing else of the gate. A gate is not saved if
            the backward can read a state instead, since states are stored anyway.
        reads: the previous states, `<state>`, and new states, `<state>_next`, that the backward
            reads.
        stages: of a cell that calls gates or reduces over units, the programs of its stages, whose
            statements `forward` and `backward` have one after the other.
    """

    cell: CellSpec
    forward: Program
    backward: Program
    saved: tuple[str, ...]
    reads: tuple[str, ...]
    stages: Stages | None = None

    def program(self, direction: Direction) -> Program:
        """The program of a direction."""
        return self.forward if direction == "forward" else self.backward

    @property
    def drawn(self) -> tuple[str, ...]:
        """The inputs of which a call draws a number for each step, row and unit."""
        return tuple(name for name, draw in self.cell.drawn.items() if draw.per == "step")

    @property
    def kept_numbers(self) -> int:
        """The numbers per step, row and unit that a call keeps for the backward.

        They are saved values, states, and what the call drew.
        """
        return len(self.saved) + len(self.cell.states) + len(self.drawn)

    @cached_property
    def linear(self) -> bool:
        """True if the backward is linear in the cotangents of the new states.

        If it is not, as with `clip_gradient`, all terms of a cotangent must be added before the
        backward runs.
        """
        return linear(self.backward, [f"d_{s.name}_next" for s in self.cell.states])

    def extra_values(self, direction: Direction) -> int:
        """Return by how many the values in use at once exceed those of library cells of this size.

        The bounds of registers were fitted to those cells. A kernel needs a register for each value
        beyond them.
        """
        return self._extra_values[direction]

    @cached_property
    def _extra_values(self) -> dict[Direction, int]:
        cell = self.cell
        given = len(cell.gates) + len(self.saved) + len(cell.params) + len(cell.inputs)
        usual = {"forward": len(cell.states) + given, "backward": 2 * len(cell.states) + given + 2}
        return {d: max(0, live_values(self.program(d)) - usual[d]) for d in DIRECTIONS}

    def __str__(self) -> str:
        return (
            f"{self.cell.name}: pointwise forward, {self.forward.operations} operations\n"
            f"{_indented(self.forward)}\n"
            f"backward, {self.backward.operations} operations;"
            f" needs {', '.join(self.saved) or 'nothing'} kept"
            f" and the states {', '.join(self.reads) or 'none'}\n"
            f"{_indented(self.backward)}"
        )


def derive(cell: CellSpec, activations: bool = True, early_sums: bool = False) -> Pointwise:
    """Derive the pointwise programs of a cell.

    Args:
        cell: any valid cell.
        activations: whether the forward may save a function of a gate in place of the gate, if the
            backward needs nothing else. Else it saves only gates, which can be recomputed from
            states.
        early_sums: whether sums over the units of a head in the backward wait for no others, if
            that saves an exchange of a step. There are more of them then. A cell without stages
            has no such sums.

    Returns:
        The forward map and its adjoint. Reverse mode accumulates cotangents over the distinct
        subexpressions and reuses the forward's values, so the adjoint costs a small multiple of the
        forward.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> derive(rnnc.cells.elman).saved      # tanh' = 1 - h_next**2: no pre-activation needed
        ()
    """
    return derived(cell, activations, early_sums and cell.has_stages)


@lru_cache(maxsize=256)
def derived(cell: CellSpec, activations: bool, early_sums: bool) -> Pointwise:
    """Return what `derive` gives, made once, however a call gives the defaults."""
    # Sorted, so that the order of declarations changes neither statements nor rounding.
    declared = {
        "gates": cell.gates,
        "inputs": cell.inputs,
        "params": cell.params,
        "constants": cell.constants,
    }
    by_name = {kind: tuple(sorted(ds, key=lambda d: d.name)) for kind, ds in declared.items()}
    found = _derive(cell.model_copy(update=by_name), activations, early_sums)
    gates = [g.name for g in cell.gates]
    values = [value for g in gates for value in (g, *(f"{name}_{g}" for name in TABLE))]
    values += [name for name in found.saved if name not in values]
    return replace(found, cell=cell, saved=tuple(sorted(found.saved, key=values.index)))


def _derive(cell: CellSpec, activations: bool, early_sums: bool) -> Pointwise:
    functions = _activations if activations else lambda *_: {}
    found = derive_stages(cell, functions, early_sums=early_sums)
    return Pointwise(
        cell=cell,
        forward=whole(found.stages.forward),
        backward=_with_gradients(whole(found.stages.backward), cell),
        saved=found.saved,
        reads=found.reads,
        stages=found.stages if cell.has_stages else None,
    )


def _with_gradients(program: Program, cell: CellSpec) -> Program:
    """The program whose statement of `d_f` also came from the symbol f."""
    declared = (*cell.gates, *cell.states, *cell.inputs, *cell.params)
    names = {f"d_{each.name}": symbol(each.name) for each in declared}

    def with_own(statement: AnyStatement) -> AnyStatement:
        own = names.get(statement.target.name) if isinstance(statement, Statement) else None
        if own is None:
            return statement
        assert isinstance(statement, Statement)
        return replace(statement, terms=joined([statement.terms, (own,)]))

    return replace(program, statements=tuple(map(with_own, program.statements)))


def _activations(cell: CellSpec, gradients: list[Node]) -> dict[Node, Node]:
    """Functions of one gate that can be saved in place of the gate, with their names.

    Saving sigmoid(f) takes as much memory as saving f, and the backward need not compute it.
    """
    # A state may have a function's name, and a gate may be called `next`.
    names = {d.name for d in cell.declarations} | {f"{s.name}_next" for s in cell.states}
    gates = {symbol(g.name): g.name for g in cell.gates}
    users: dict[str, set[Node]] = {}
    for node in ordered(gradients):
        for argument in node.args:
            if argument in gates:
                users.setdefault(gates[argument], set()).add(node)
    found: dict[Node, Node] = {}
    for gate in (g.name for g in cell.gates):
        # A gradient that is the gate itself also needs the gate.
        if len(users.get(gate, ())) != 1 or symbol(gate) in gradients:
            continue
        (user,) = users[gate]
        if user.op != "call" or user.args != (symbol(gate),):
            continue
        name = f"{user.name}_{gate}"
        if name not in names:
            found[user] = symbol(name)
    return found


def _indented(program: Program) -> str:
    return "\n".join(f"  {line}" for line in program.lines())
