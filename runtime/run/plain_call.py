"""A module's call as kernels can run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from ..call.ragged import Ragged
from ..call.stack import Stack
from ..program.replays import Replays


class KernelCall(NamedTuple):
    """A call that kernels can run.

    Attributes:
        target: the name of the target that runs it.
        x: the input, in the dtype of the call.
        states: the caller's, likewise.
        weights: likewise; the `LayerWeights.flat` of each direction of each layer.
        needs_grad: whether a backward may follow.
    """

    target: str
    x: Tensor
    states: tuple[Tensor, ...]
    weights: Sequence[Tensor | None]
    needs_grad: bool


class PlainCall(NamedTuple):
    """A call on tensors that kernels read by their address.

    Attributes:
        stack: the call, besides its tensors.
        x: as in `KernelCall`.
        states: as in `KernelCall`.
        weights: as in `KernelCall`.
        needs_grad: as in `KernelCall`.
        replays: of calls like this one, if they come again.
        ragged: lengths and resets, if there are any; lengths of int64 on the device of x.
        unweighted: as in `ScanInputs`, the same for all layers.
    """

    stack: Stack
    x: Tensor
    states: tuple[Tensor, ...]
    weights: Sequence[Tensor | None]
    needs_grad: bool
    replays: Replays | None = None
    ragged: Ragged | None = None
    unweighted: tuple[Tensor, ...] = ()
