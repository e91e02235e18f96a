"""Alternating plans: a product and a pointwise map each step, in CUDA graphs."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.alternating.plan import AlternatingPlan
from ..memory.kept import Kept
from ..precision import tf32_allowed
from .work import Work

_works: Kept[Work] = Kept()


def run_alternating(
    cell: CellSpec,
    plan: AlternatingPlan,
    arguments: ctypes.Structure,
    R: Tensor | None,
    like: Tensor,
    sizes: tuple[int, int, int, int],
) -> None:
    """Run one direction of an alternating plan on torch's current stream.

    Args:
        cell: the cell.
        plan: of the direction.
        arguments: of the direction, as for a block.
        R: (Gr, N, D, D), where the cell has dense gates.
        like: gives dtype and device.
        sizes: T, B, N and D.
    """
    steps, *rest = sizes
    batch, heads, dim = rest
    stream = torch._C._cuda_getCurrentRawStream(like.device.index)
    what = (like.dtype, like.device, (batch, heads, dim), stream)
    tf32 = tf32_allowed(like.dtype)
    if torch.cuda.is_current_stream_capturing():
        Work(cell, plan, *what, tf32, lasting=False).run(arguments, steps, R)
        return
    key = (cell, plan, *what, tf32)
    work = _works.get(key, lambda: Work(cell, plan, *what, tf32, lasting=True))
    with work.lock:
        work.run(arguments, steps, R)
