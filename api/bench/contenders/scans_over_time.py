"""Recurrences without a product of the state: flash-linear-attention and accelerated-scan.

Their inputs are what the recurrence itself reads. A model computes them from products with its
input and from activations, which no time here includes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..inputs import Call, Inputs
from ..rows import Row
from .contender import Contender
from .packages import package

_FLA = ("flash-linear-attention", "pip install flash-linear-attention")
_SCAN = ("accelerated-scan", "pip install accelerated-scan")
_LINEAR = "another function: h = a h + b without a product of h; a and b ready"
_MATRIX = "another function: gated linear attention, a matrix per head; q, k, v and gates ready"
# The largest head of gated linear attention. Its kernels are made for heads of up to 256 units.
_LARGEST_GLA = 256
# The backward of accelerated-scan 0.3.1 takes steps in blocks of this many. It reads past the end
# of its tensors unless the last block is full, at times with an illegal access.
SCAN_BLOCK = 2048


def fla_hgrn(row: Row, dtype: str) -> Iterator[Contender]:
    """`chunk_hgrn` over the units of a row."""
    yield Contender("fla chunk_hgrn", dtype, False, "wx ready", _hgrn, note=_LINEAR)


def fla_gla(row: Row, dtype: str) -> Iterator[Contender]:
    """Gated linear attention for the heads of a row: step by step, and by chunks."""
    if row.head_dim > _LARGEST_GLA:
        return
    # Those by chunks try some hundred configurations, which take minutes to compile.
    for kernel in ("fused_recurrent_gla", "chunk_gla"):
        prepare = partial(_gla, kernel)
        yield Contender(f"fla {kernel}", dtype, False, "wx ready", prepare, note=_MATRIX)


def accelerated_scan(row: Row, dtype: str) -> Iterator[Contender]:
    """The Triton kernels of accelerated-scan, in which time is the last dimension."""
    yield Contender("accelerated-scan", dtype, False, "wx ready", _scan, note=_LINEAR)


def hgrn_kernel(device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Fla's `h = exp(g) h + x` by chunks.

    Returns:
        A function of x and g, (B, T, units) each, that returns h.
    """
    run = package("fla.ops.hgrn", *_FLA, device).chunk_hgrn
    return lambda x, g: run(x, g)[0]


def scan_kernel(device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """accelerated-scan's `h = a h + b`.

    Returns:
        A function of a and b, (B, units, T) each and contiguous, that returns h.
    """
    return package("accelerated_scan.scalar", *_SCAN, device).scan  # type: ignore[no-any-return]


def _hgrn(inputs: Inputs) -> Call:
    run, row = hgrn_kernel(inputs.device), inputs.row
    sizes = (row.batch, row.steps, row.hidden)
    x, g = inputs.draw(*sizes), _log_gates(inputs, *sizes)
    seed = inputs.d_h.flatten(2).transpose(0, 1).contiguous()
    return Call(lambda: run(x, g), seed, [x, g])


def _gla(kernel: str, inputs: Inputs) -> Call:
    run = getattr(package("fla.ops.gla", *_FLA, inputs.device), kernel)
    row = inputs.row
    sizes = (row.batch, row.steps, row.heads, row.head_dim)
    q, k, v = (inputs.draw(*sizes, scale=1) for _ in range(3))
    g = _log_gates(inputs, *sizes)
    seed = inputs.d_h.transpose(0, 1).contiguous()
    return Call(lambda: run(q, k, v, g)[0], seed, [q, k, v, g])


def _scan(inputs: Inputs) -> Call:
    run, row = scan_kernel(inputs.device), inputs.row
    # With a unit more, tensors do not fill the 2 MiB that the allocator rounds them up to, and what
    # is read past their end exists.
    units = row.hidden + (row.steps % SCAN_BLOCK > 0)
    sizes = (row.batch, units, row.steps)
    b = inputs.draw(*sizes)
    a = torch.sigmoid(inputs.draw(*sizes, scale=1, grad=False)).requires_grad_()
    seed = F.pad(inputs.d_h.flatten(2).permute(1, 2, 0), (0, 0, 0, units - row.hidden)).contiguous()
    return Call(lambda: run(a, b), seed, [a, b])


def _log_gates(inputs: Inputs, *sizes: int) -> Tensor:
    return F.logsigmoid(inputs.draw(*sizes, scale=1, grad=False)).requires_grad_()
