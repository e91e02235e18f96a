"""Cells cut where a gradient is not the derivative of its value, for finite differences.

`stop_gradient`, `clip_gradient` and `with_gradient` have a gradient that no finite difference
shows. What is behind such a cut gets its value from outside, as an `Input`, so that it is held.
What the cut passes its gradient to becomes the new value of one more state, which nothing reads.
A loop that has a cut in its body is written out, since each pass has a value of its own there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import count, islice

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..cellspec.declare import Input, State
from ..cellspec.expression.graph import calls, rewritten
from ..cellspec.expression.loops import (
    body_of,
    carried,
    results_of,
    starts_of,
    unchanged,
    unchanged_of,
)
from ..cellspec.expression.node import Node, binary, ordered, symbol
from ..cellspec.stages.levels import called_gates
from ..runtime.call.tensors import ScanInputs
from .inputs import leaves_of, run

#: For each of these functions, the argument that its gradient goes to.
_PASSED = {"stop_gradient": None, "clip_gradient": 0, "with_gradient": 1}


@dataclass(frozen=True)
class CutCell:
    """A cell whose gradients are the derivatives of its values.

    Attributes:
        cell: the cell, with an input for each cut and a state for each part.
        inputs: of a call of it; at the cuts they have the values of the whole cell.
        shown: what the names stand for that the whole cell does not have.
    """

    cell: CellSpec
    inputs: ScanInputs
    shown: dict[str, str] = field(default_factory=dict)


def cut(cell: CellSpec, inputs: ScanInputs) -> CutCell:
    """Cut a cell where gradients are not derivatives; a cell without such places stays whole.

    Args:
        cell: the cell.
        inputs: of a call of it.
    """
    written = tuple(_written_out(cell.updates))
    if written != cell.updates:
        cell = cell.model_copy(update={"updates": written})
    cuts, passed = _places(cell)
    if not cuts:
        return CutCell(cell, inputs)
    values = _values_at(cuts, cell, inputs)
    names = _new_names(cell, "held", len(cuts))
    held = {node: symbol(name) for node, name in zip(cuts, names, strict=True)}
    unweighted = (*cell.inputs, *(Input(name=name) for name in names))
    updates = list(rewritten(cell.updates, held))
    parts = dict(zip(rewritten(passed, held), passed, strict=True))
    own = [part for part in parts if not part.is_leaf and part not in updates]
    updates += own
    named = (*cell.gates, *unweighted, *cell.params, *cell.constants)
    if unused := _sum_of_unused([symbol(d.name) for d in named], updates):
        updates.append(unused)
    more = _new_names(cell, "part", len(updates) - len(cell.states))
    states = (*cell.states, *(State(name=name) for name in more))
    fields = {"states": states, "inputs": unweighted, "updates": tuple(updates)}
    given = replace(
        _with_states(inputs, len(more)),
        unweighted=[*inputs.unweighted, *(values[node] for node in cuts)],
    )
    shown = dict(zip(names, (f"the value of {_short(node)}" for node in cuts), strict=True))
    others = updates[len(cell.states) :]
    shown |= dict(zip(more, (_short(parts.get(part, part)) for part in others), strict=True))
    return CutCell(cell.model_copy(update=fields), leaves_of(given, inputs.wx.dtype), shown)


def _written_out(roots: Iterable[Node]) -> list[Node]:
    """The roots with the first passes of each loop in place of it, if its body has a cut.

    They are one more than the values that it carries, so that each can reach all others.
    """
    new: dict[Node, Node] = {}
    for loop in (node for node in ordered(roots) if node.op == "repeat"):
        body = body_of(loop)
        if calls(body.roots).isdisjoint(_PASSED):
            continue
        one_pass = _written_out(body.roots)
        outer = rewritten(unchanged_of(loop), new)
        fixed = {unchanged(place): value for place, value in enumerate(outer)}
        values = rewritten(starts_of(loop), new)
        for _ in range(min(body.passes, len(values) + 1)):
            own = {carried(place): value for place, value in enumerate(values)}
            values = rewritten(one_pass, fixed | own)
        new |= zip(results_of(loop), values, strict=True)
    return rewritten(roots, new)


def _places(cell: CellSpec) -> tuple[list[Node], list[Node]]:
    """The cuts that a gradient comes to, and what they pass it to."""
    calls = [n for n in ordered(cell.updates) if n.op == "call" and n.name in _PASSED]
    stop = dict.fromkeys(calls)
    cuts: dict[Node, None] = {}
    passed: dict[Node, None] = {}
    pending: Sequence[Node] = cell.updates
    while pending:
        new = [n for n in ordered(pending, stop=stop) if n in stop and n not in cuts]
        cuts.update(dict.fromkeys(new))
        places = [(n, _PASSED[n.name]) for n in new]
        pending = [n.args[place] for n, place in places if place is not None]
        passed.update(dict.fromkeys(pending))
    return list(cuts), list(passed)


def _values_at(cuts: list[Node], cell: CellSpec, inputs: ScanInputs) -> dict[Node, Tensor]:
    """The values at the cuts over time: they are new states of a cell that computes the same."""
    new = [node for node in cuts if node not in cell.updates]
    states = (State(name=name) for name in _new_names(cell, "value", len(new)))
    fields = {"states": (*cell.states, *states), "updates": (*cell.updates, *new)}
    recording = cell.model_copy(update=fields)
    over_time, _ = run(recording, _with_states(inputs, len(new)), "reference")
    return {u: y.detach() for u, y in zip((*cell.updates, *new), over_time, strict=True)}


def _with_states(inputs: ScanInputs, how_many: int) -> ScanInputs:
    """The inputs with as many more initial states of zero."""
    first = inputs.initial_states[0]
    more = [torch.zeros_like(first) for _ in range(how_many)]
    return replace(inputs, initial_states=[*inputs.initial_states, *more])


def _sum_of_unused(symbols: list[Node], updates: list[Node]) -> Node | None:
    """A use for the names that have lost theirs, since a cell has none without one."""
    used = {s for update in updates for s in update.free_symbols}
    used |= {symbol(name) for name in called_gates(updates)}
    unused = [s for s in symbols if s not in used]
    return reduce(partial(binary, "+"), unused) if unused else None


def _new_names(cell: CellSpec, word: str, how_many: int) -> list[str]:
    """Names that the cell does not have, of a word and a number."""
    declared = cell.declarations
    taken = {d.name for d in declared}
    return list(islice((n for i in count() if (n := f"{word}{i}") not in taken), how_many))


def _short(node: Node) -> str:
    text = repr(node)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


#: The most letters of an expression in a message.
_LONGEST = 80
