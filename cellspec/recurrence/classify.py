"""`Recurrence`: what kind a cell is, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..expression.node import Node
from ..stages.levels import first_stage
from .adjoint import why_no_scan_backward
from .analysis import Analysis
from .forms import Affine, MaxAffine, NoFormError
from .sight import MOST_COUPLED, States, coupled, states_seen, symbols_that_see, unit_updates
from .words import joined, quoted

if TYPE_CHECKING:
    from ..cell import CellSpec

Kind = Literal["dense", "diagonal", "affine"]


@dataclass(frozen=True)
class Part:
    """States of a cell without dense matrices that read each other.

    Attributes:
        states: their names, in the signature's order.
        kind: `"affine"`, the new values are sums of the old ones times coefficients, or for one
            state a maximum; `"diagonal"`, any other function of them; `"output"`, one state that
            does not read its own old value.
        reason: why it is of this kind, as a clause.
        matrix: if it is affine, for each new value the coefficients of the old ones; an entry that
            is None is 0. The symbol `u_g` is the weight of a gate `g` with
            `recurrent="diagonal"`, with several sources `u_g,s`.
        offsets: if it is affine, what is added to each new value; None is 0. A gate in it is the
            gate without its products with states of this part.
        maximum: if it is affine in another way, its one state m becomes
            `maximum(m + shift, bound)`.
    """

    states: tuple[str, ...]
    kind: Literal["diagonal", "affine", "output"]
    reason: str
    matrix: tuple[tuple[Node | None, ...], ...] = ()
    offsets: tuple[Node | None, ...] = ()
    maximum: MaxAffine | None = None


@dataclass(frozen=True)
class Recurrence:
    """Kind of recurrence of a cell.

    Attributes:
        kind: `"dense"`, a matrix multiplies a state, or a reduction reads all units;
            `"diagonal"`, each unit reads its own past alone, by any function; `"affine"`, by a
            function that a scan over time can combine.
        reason: why it is of this kind, as a clause.
        parts: the parts of a cell without dense matrices; each reads itself and parts before it.
        adjoint: the kind of the backward: that of a cell without dense matrices is linear in its
            cotangents, whatever its forward is, unless `clip_gradient` clips one on its way.
        adjoint_reason: why the backward is of this kind, as a clause.
    """

    kind: Kind
    reason: str
    parts: tuple[Part, ...]
    adjoint: Kind
    adjoint_reason: str

    def __str__(self) -> str:
        forward = f"{self.kind}: {self.reason}"
        if self.kind == "dense":
            return forward
        broken = f": {self.adjoint_reason}" if self.adjoint == "diagonal" else ""
        return f"{forward}; backward {self.adjoint}{broken}"


def classify(cell: CellSpec) -> Recurrence:
    """Find what kind of recurrence a cell is.

    It follows the operations as their author wrote them, from the new values to the old ones. It
    cancels nothing: `h*h - h*h + a*h` is not affine. It looks at values and not at derivatives:
    `stop_gradient(h)` is h.
    """
    if cell.dense_pairs:
        return _dense(cell)
    new = unit_updates(cell)
    mixing = first_stage(new)
    if mixing is not None:
        reason = f"{quoted(mixing)} reads all units of a head"
        return Recurrence("dense", reason, (), "dense", "its backward reads them too")
    seen = states_seen(new, symbols_that_see(cell))
    updates = {state.name: u for state, u in zip(cell.states, new, strict=True)}
    reads = {name: seen[update] for name, update in updates.items()}
    parts = tuple(_part(cell, group, updates, reads) for group in coupled(reads))
    broken = why_no_scan_backward(cell)
    harder = [part.reason for part in parts if part.kind == "diagonal"]
    return Recurrence(
        kind="diagonal" if harder else "affine",
        reason="; ".join(harder or [part.reason for part in parts]),
        parts=parts,
        adjoint="diagonal" if broken else "affine",
        adjoint_reason=broken or "linear in the cotangents",
    )


def _dense(cell: CellSpec) -> Recurrence:
    gates = dict.fromkeys(f"R_{pair.gate}" for pair in cell.dense_pairs)
    called = [pair for pair in cell.dense_pairs if pair.gate in cell.called]
    states = dict.fromkeys(p.source for p in cell.dense_pairs if p not in called)
    factors = [*states, *(["values of the step"] if called else [])]
    verb = "multiplies" if len(gates) == 1 else "multiply"
    reason = f"{joined([*gates])} {verb} {joined(factors)}"
    return Recurrence("dense", reason, (), "dense", "the same matrices, transposed")


def _part(
    cell: CellSpec,
    states: tuple[str, ...],
    updates: Mapping[str, Node],
    reads: Mapping[str, States],
) -> Part:
    first = states[0]
    if len(states) == 1 and first not in reads[first]:
        return Part(states, "output", f"{first} does not read its own past")
    if len(states) > MOST_COUPLED:
        reason = f"{joined(states)} read each other, more than {MOST_COUPLED} states"
        return Part(states, "diagonal", reason)
    analysis = Analysis(cell, states)
    try:
        return _affine(states, [analysis.affine(updates[state]) for state in states])
    except NoFormError as broken:
        reason = str(broken)
    if len(states) == 1:
        with suppress(NoFormError):
            form = analysis.max_affine(updates[first])
            shape = f"{first}' = maximum({first} + a, b)"
            return Part(states, "affine", shape, maximum=form)
    return Part(states, "diagonal", reason)


def _affine(states: tuple[str, ...], forms: Sequence[Affine]) -> Part:
    matrix = tuple(tuple(form.coefficients.get(s) for s in states) for form in forms)
    if len(states) == 1:
        (coefficient,) = forms[0].coefficients.values()
        reason = f"{states[0]}' = a*{states[0]} + b with a = {quoted(coefficient)}"
    else:
        reason = f"a {len(states)} x {len(states)} matrix multiplies {joined(states)}"
    return Part(states, "affine", reason, matrix, tuple(form.offset for form in forms))
