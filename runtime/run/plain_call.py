"""Calls of a module as kernels can run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from ..call.ragged import Ragged
from ..call.stack import Stack
from ..program.replays import Replays


class KernelCall(NamedTuple):
    """Call that kernels can run; its tensors are the caller's, in the dtype of the call.

    `target` is the name of the target that runs it. `needs_grad` says that a backward may follow.
    """

    target: str
    x: Tensor
    states: tuple[Tensor, ...]
    weights: Sequence[Tensor | None]
    needs_grad: bool


class PlainCall(NamedTuple):
    """Call on tensors that kernels read by their address; see `KernelCall`.

    `replays` are of calls like this one, if they come again. Lengths of `ragged` are of int64 on
    the device of x. `unweighted` is as in `ScanInputs`, the same for all layers.
    """

    stack: Stack
    x: Tensor
    states: tuple[Tensor, ...]
    weights: Sequence[Tensor | None]
    needs_grad: bool
    replays: Replays | None = None
    ragged: Ragged | None = None
    unweighted: tuple[Tensor, ...] = ()
