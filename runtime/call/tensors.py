"""Tensors of a call: its inputs, its results, what its backward reads, and its gradients.

B batch rows, T steps, N heads, D units per head. Tensors have one order everywhere, that of
`rnnc.scan`: wx, R, b, initial states, R_diag, params, unweighted inputs, masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...codegen.shape import Dtype
from .masks import Masks

# The dtypes in which a cell can be computed, by the words that plans have for them.
DTYPES: dict[torch.dtype, Dtype] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}
States = tuple[Tensor, ...]
# None for each that a call does not have, or that is zero.
SomeTensors = Sequence[Tensor | None]


class LayerResults(NamedTuple):
    """Tensors without gaps for results of a direction of a layer.

    Attributes:
        output: of its only step, (1, B, N, D); None for a new tensor.
        last: each state after the last step, (B, N, D).
    """

    output: Tensor | None
    last: Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class ScanInputs:
    """Input tensors of a call.

    Attributes:
        wx: (B, T, N, D, Gx), the input's contribution to each gate that takes input.
        R: (Gr, N, D, D) as [gate, head, out, in]; None if the cell has no dense gate.
        b: (Gb, N, D), or None for no bias.
        initial_states: the states before the first step, (B, N, D) each.
        R_diag: (Gd, N, D); None if the cell has no diagonal gate.
        params: (N, D) each, in the cell's order.
        masks: how each row takes each step; None where all rows run all steps without a reset.
        unweighted: the cell's inputs that no weight multiplies, in its order: (B, T, N, D) each,
            with 1 in place of a size where all have one value.
        to: tensors for results, of a target that `takes_results`; None for new ones.
    """

    wx: Tensor
    R: Tensor | None
    b: Tensor | None
    initial_states: Sequence[Tensor]
    R_diag: Tensor | None
    params: Sequence[Tensor]
    masks: Masks | None = None
    unweighted: Sequence[Tensor] = ()
    to: LayerResults | None = None

    def flat(self) -> tuple[Tensor | None, ...]:
        """Return the tensors without masks, None for each that there is not."""
        own = (self.wx, self.R, self.b, *self.initial_states, self.R_diag, *self.params)
        return (*own, *self.unweighted)

    def present(self) -> list[Tensor]:
        """Return the tensors of the call's dtype that are not None, in order."""
        reset_to = () if self.masks is None else self.masks.reset_to or ()
        return [tensor for tensor in (*self.flat(), *reset_to) if tensor is not None]

    def map(self, change: Callable[[Tensor], Tensor]) -> ScanInputs:
        """Return the same inputs with each tensor of the call's dtype changed."""
        return ScanInputs(
            change(self.wx),
            None if self.R is None else change(self.R),
            None if self.b is None else change(self.b),
            [change(s) for s in self.initial_states],
            None if self.R_diag is None else change(self.R_diag),
            [change(p) for p in self.params],
            None if self.masks is None else self.masks.map(change),
            [change(t) for t in self.unweighted],
        )


@dataclass(frozen=True, slots=True)
class Forward:
    """Results of a forward.

    Attributes:
        states: each state at all steps, (T, B, N, D); of no steps where it is not stored.
        last: each state after the last step, (B, N, D).
        saved: what the backward reads besides; its layout belongs to the target.
    """

    states: Sequence[Tensor]
    last: Sequence[Tensor]
    saved: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved(ScanInputs):
    """Tensors of a forward that its backward reads: what went in, and what came out.

    wx and b are there if the backward computes the gates `again`, else None.

    Attributes:
        states: each state at all steps, as in `Forward`.
        saved: as in `Forward`.
        zero: for each initial state, whether it is known to be zero; empty where none is.
        by_head: whether the gradients of weights lie head by head in memory.
        apart: whether the caller computes the gradients of weights but of params, from those of
            the gates: for each of several samples.
    """

    states: Sequence[Tensor]
    saved: Tensor
    zero: tuple[bool, ...] = ()
    by_head: bool = False
    apart: bool = False

    @property
    def again(self) -> bool:
        """Return True if the backward computes the gates again, from wx."""
        return self.wx is not None

    @property
    def known_zero(self) -> tuple[bool, ...]:
        """States that products over time know to be zero before the first step; empty for none."""
        masks = self.masks
        # Where the first step begins from reset values, its states are zero no more.
        return self.zero if masks is None or masks.reset_to is None else ()


def saved_of(inputs: ScanInputs, forward: Forward, again: bool) -> Saved:
    """Return what a backward needs of a call; wx and b only if it computes the gates `again`."""
    given: Any = {own.name: getattr(inputs, own.name) for own in fields(inputs)}
    given |= {} if again else {"wx": None, "b": None}
    return Saved(**given, states=forward.states, saved=forward.saved)


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients of a call's inputs.

    Attributes:
        d_wx: (B, T, N, D, Gx), with strides of the target's choice.
        d_R: (Gr, N, D, D); of any shape if `Saved.apart`, as d_b and d_R_diag.
        d_b: (Gb, N, D).
        d_initial_states: (B, N, D) each.
        d_R_diag: (Gd, N, D).
        d_params: (P, N, D).
        d_reset_to: of the reset values of each state, (B, N, D), summed over time; None where the
            call has none that `Masks.learned` says.
        d_others: (B, T, N, D, G - Gx), of the gates that take no input; those of the cell's inputs
            that no weight multiplies are the last, without inputs that have no gradient. None for
            no such gate.
    """

    d_wx: Tensor
    d_R: Tensor
    d_b: Tensor
    d_initial_states: Sequence[Tensor]
    d_R_diag: Tensor
    d_params: Tensor
    d_reset_to: Sequence[Tensor] | None = None
    d_others: Tensor | None = None


def inputs_at(unweighted: Sequence[Tensor], index: int) -> tuple[Tensor, ...]:
    """Return the inputs, as in `Tensors`, of a direction by its number among all."""
    return tuple([given[index] if given.ndim == 5 else given for given in unweighted])


def inputs_of(unweighted: Sequence[Tensor], part: slice) -> tuple[Tensor, ...]:
    """Return the inputs of some directions, as in `Tensors`; `part` has their numbers."""
    return tuple([given[part] if given.ndim == 5 else given for given in unweighted])


def strides_of_unweighted(tensor: Tensor) -> tuple[int, int, int, int]:
    """Return the strides of time, batch, head and unit, in elements; 0 where all have one value."""
    rows = [0 if n == 1 else s for n, s in zip(tensor.shape, tensor.stride(), strict=True)]
    return rows[1], rows[0], rows[2], rows[3]


class Stepped(NamedTuple):
    """Results of a single step of all layers.

    Attributes:
        output: (B, hidden), of the last layer.
        last: each new state, (layers, B, hidden).
        saved: what a backward reads besides, of all layers; None where no backward follows.
    """

    output: Tensor
    last: States
    saved: Tensor | None
