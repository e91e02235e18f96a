"""Calls of one direction of a layer: the cell, the target, and which results are wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kinds import variants
from ...codegen.layout import layout_of
from ...codegen.shape import SAVES, PlanError, Precision, Reverse, Save
from .facts import facts_of
from .options import check_choice

# How the layers of a call run: at the same time, one after the other, or what is faster.
Order = Literal["auto", "wavefront", "sequential"]
ORDERS: tuple[Order, ...] = ("auto", "wavefront", "sequential")
_FILLS = 8  # how many values `Choice.fill` has: not each call has plans of its own


class Choice(NamedTuple):
    """Caller's choice among the kernels of a device, as in `rnnc.scan`.

    There `reverse` is a bool. A module also has `"half"`: both directions of a layer in one call,
    the heads of the one that runs forwards first. `fill` is that of `Shape`, which no caller sets:
    a module's call has it where the host sees how many steps each row runs, since other plans are
    faster there.
    """

    variant: str = "auto"
    save: Save = "gates"
    precision: Precision = None
    reverse: Reverse = False
    fill: float = 1.0

    @property
    def of_scan(self) -> tuple[str, Save, Precision, Reverse]:
        """Options that the operators of a scan take."""
        return self.variant, self.save, self.precision, self.reverse


def check_words(choice: Choice) -> None:
    """Raise a `TensorError` if there is no such variant, or nothing like it to save.

    Each way that a call may take checks it: also those that do not read the words, since on another
    device the same call does.
    """
    check_choice("variant", choice.variant, variants())
    check_choice("save", choice.save, SAVES)


def fill_of(total: int, steps: int, batch: int) -> float:
    """Return `Choice.fill`: the share of all rows' steps that run, `total` of `steps * batch`."""
    share = round(_FILLS * total / max(steps * batch, 1))
    return min(max(share, 1), _FILLS) / _FILLS


@dataclass(frozen=True, slots=True, eq=False)
class LayerCall:
    """Call of one direction of a layer, besides its tensors.

    `layer_call_of` makes one object for all equal calls, so that a call is compared and hashed by
    its identity.

    Attributes:
        target: the name of the target that runs it.
        for_backward: whether a backward may follow.
        stored: which states are returned at all steps.
        tf32: whether products may round factors of float32 to TF32: decided by the forward, and the
            same in its backward.
        masked: whether it has `Masks`: its kernels are then others.
    """

    cell: CellSpec
    target: str
    for_backward: bool
    stored: tuple[bool, ...]
    choice: Choice
    tf32: bool = False
    masked: bool = False

    @property
    def saves_gates(self) -> bool:
        """True if a forward saves more than states for its backward."""
        return self.for_backward and self.choice.save == "gates"


@lru_cache(maxsize=1024)
def layer_call_of(
    cell: str,
    target: str,
    for_backward: bool,
    over_time: tuple[bool, ...],
    choice: Choice,
    tf32: bool,
    masked: bool = False,
) -> LayerCall:
    """Return the `LayerCall` of plain values, one object for all equal ones; `cell` is JSON."""
    check_words(choice)
    spec = cell_of(cell)
    reads = zip(over_time, backward_reads(spec), strict=True)
    stored = tuple([wanted or (for_backward and read) for wanted, read in reads])
    return LayerCall(spec, target, for_backward, stored, choice, tf32, masked)


@lru_cache(maxsize=512)
def cell_of(text: str) -> CellSpec:
    """Return the cell of an operator's text argument, whose JSON ends before the first tab."""
    return CellSpec.from_json(text.partition("\t")[0])


def backward_reads(cell: CellSpec) -> tuple[bool, ...]:
    """Return which states the backward needs at all steps: those that it or its products read."""
    layout = layout_of(cell)
    reads = zip(layout.states, facts_of(cell).reads, strict=True)
    return tuple(r or state in layout.sources.values for state, r in reads)


@lru_cache(maxsize=512)
def saving_again(layer_call: LayerCall) -> LayerCall:
    """Return the call that runs a forward again, for what it has not saved besides states."""
    no_states = (False,) * len(layer_call.stored)
    gates = layer_call.choice._replace(save="gates")
    return replace(layer_call, for_backward=True, stored=no_states, choice=gates)


def wavefront_error(what: str, why_not: str) -> PlanError:
    """Return the error of a call whose layers cannot run at the same time, as its caller wants."""
    return PlanError(
        f'layers="wavefront", {what}',
        why_not,
        "layers of block or cluster plans that fit a GPU together, in one direction of time",
        'layers="auto"',
    )
