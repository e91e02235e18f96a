"""Sums over the parts of tensors, with their axes permuted and their elements converted.

Several tensors are one launch. Operators of torch would take one or two launches for each, and a
small network's gradients as long as its kernels.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ....codegen.cuda.kernel_plan import LaunchShape
from ....codegen.render import cuda_unit
from ..driver.capture import beside_captures
from ..driver.device import device_limits
from ..launch import Kernel, on_device
from ..load import LoadedModule, loaded
from ..nvrtc import compile_unit

# As in templates/cuda/rearrange.cu.
_THREADS, _WIDE, _MOST = 256, 4, 8
_KINDS = {
    (torch.float32, torch.float32): 0,
    (torch.float64, torch.float64): 1,
    (torch.float64, torch.float32): 2,
    (torch.bfloat16, torch.bfloat16): 3,
    (torch.float16, torch.float16): 4,
    (torch.float32, torch.bfloat16): 5,
    (torch.float32, torch.float16): 6,
}
_OUTER = 3  # axes besides the parts and the last one
_MOST_ITEMS = 2**31
_BLOCKS_PER_MULTIPROCESSOR = 8
_WORDS = 12  # of a job


class Job(NamedTuple):
    """One tensor to write.

    Attributes:
        to: at most four axes, without gaps.
        parts: (parts, …), of `to`'s axes; `to` becomes their sum.
    """

    to: Tensor
    parts: Tensor


class _Jobs(ctypes.Structure):
    """Mirrors `Jobs`."""

    class _Job(ctypes.Structure):
        _fields_ = [
            ("source", ctypes.c_void_p),
            ("to", ctypes.c_void_p),
            ("numbers", ctypes.c_int64 * (_WORDS - 2)),
        ]

    _fields_ = [("jobs", _Job * _MOST)]


def rearrange(jobs: Sequence[Job]) -> None:
    """Write the sum of each tensor's parts, on torch's current stream.

    Sums of elements of 4 bytes and more are taken in float64.

    Args:
        jobs: of one device.
    """
    found: list[tuple[int, list[int]]] = []
    for job in jobs:
        if not job.to.numel():
            continue
        words = _words(job)
        if words is None:
            by_torch(job)
        else:
            found.append(words)
    for first in range(0, len(found), _MOST):
        some = found[first : first + _MOST]
        numbers = array("q", [word for _, words in some for word in words])
        numbers.extend([0] * (_MOST * _WORDS - len(numbers)))
        device = jobs[0].to.device
        with on_device(device):
            kernel, most = _kernel(device.index)
            blocks = max(math.ceil(items / _THREADS) for items, _ in some)
            kernel((min(blocks, most), len(some), 1), _Jobs.from_buffer(numbers))


def in_order(tensor: Tensor) -> tuple[Tensor, list[Job]]:
    """A tensor without gaps, and the job that fills it; the tensor itself, if it has none.

    Args:
        tensor: of at most four axes.
    """
    if tensor.is_contiguous():
        return tensor, []
    to = tensor.new_empty(tensor.shape)
    return to, [Job(to, tensor[None])]


def by_torch(job: Job) -> None:
    """Do one job by operators of torch.

    Args:
        job: of any device.
    """
    to, parts = job
    to.copy_(parts[0] if len(parts) == 1 else parts.sum(0))


def _words(job: Job) -> tuple[int, list[int]] | None:
    """The items of a job, and its struct; None if the kernel does not take it."""
    to, parts = job
    kind = _KINDS.get((parts.dtype, to.dtype))
    *sizes, inner = to.shape
    part, *strides, last = parts.stride()
    part = part if len(parts) > 1 else 0
    if not to.is_cuda or kind is None or (last != 1 and inner > 1) or len(sizes) > _OUTER:
        return None
    places = parts.data_ptr(), to.data_ptr()
    bytes_at_once = _WIDE * parts.element_size(), _WIDE * to.element_size()
    aligned = all(p % min(b, 16) == 0 for p, b in zip(places, bytes_at_once, strict=True))
    wide = aligned and not any(number % _WIDE for number in (inner, part, *strides))
    items = to.numel() // (_WIDE if wide else 1)
    if items >= _MOST_ITEMS or not to.is_contiguous():
        return None
    lead = _OUTER - len(sizes)
    outer = *[1] * lead, *sizes, *[0] * lead, *strides
    return items, [*places, 2 * kind + wide, len(parts), part, *outer, inner]


def jobs_of_splits(
    parts: Tensor, counts: Sequence[int], dtype: torch.dtype
) -> Iterator[tuple[Tensor, list[Job]]]:
    """For each range of the second axis, a new tensor and the job that fills it, if any.

    Args:
        parts: (parts, all counts, …).
        counts: of each range.
        dtype: of the results.
    """
    first = 0
    for count in counts:
        to = parts.new_empty(count, *parts.shape[2:], dtype=dtype)
        yield to, [Job(to, parts[:, first : first + count])] if count else []
        first += count


@lru_cache(maxsize=64)
def _kernel(device: int) -> tuple[Kernel, int]:
    """The kernel on a device, and the most blocks of a launch."""
    limits = device_limits(device)
    with beside_captures():
        module = LoadedModule(compile_unit(cuda_unit("rearrange"), limits.arch).cubin)
        kernel = loaded(module, LaunchShape(_THREADS), "rnnc_rearrange", device)
    return kernel, limits.multiprocessors * _BLOCKS_PER_MULTIPROCESSOR
