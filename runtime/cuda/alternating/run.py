"""Alternating plans: a product and a pointwise map each step, in CUDA graphs."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.alternating.plan import AlternatingPlan
from ..launch import CallSizes, Launcher
from ..memory.kept import Kept
from .work import Work

_works: Kept[Work] = Kept()


class AlternatingLauncher(Launcher):
    """Launcher of the steps of an alternating plan, from buffers and graphs that are kept."""

    __slots__ = ("_cell", "_plan", "_sizes")

    def __init__(
        self, cell: CellSpec, plan: AlternatingPlan, sizes: CallSizes, device: int
    ) -> None:
        self._cell, self._plan, self._sizes = cell, plan, sizes

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Run all steps of the direction on torch's current stream."""
        cell, plan = self._cell, self._plan
        stream = torch._C._cuda_getCurrentRawStream(like.device.index)
        what = (like.dtype, like.device, self._sizes, stream)
        if torch.cuda.is_current_stream_capturing():
            Work(cell, plan, *what, lasting=False).run(arguments, steps, R)
            return
        key = (cell, plan, *what)
        work = _works.get(key, lambda: Work(cell, plan, *what, lasting=True))
        with work.lock:
            work.run(arguments, steps, R)
