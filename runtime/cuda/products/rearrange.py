"""Sums over the parts of tensors, with their axes permuted and their elements converted.

Several tensors are one launch. Operators of torch would take one or two launches for each; for the
gradients of a small network they would take as long as its kernels.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ...targets.by_torch import Moves
from ..arguments import NUMBER, POINTER, fields, structure
from ..driver.device import device_limits
from ..driver.streams import on_device
from ..launch import Kernel
from ..load import begin_to_compile, unit_kernel, unit_of

# As in templates/cuda/rearrange.cu.
_THREADS, _WIDE, _MOST, _TILE = 256, 4, 16, 32
_ONE, _SEVERAL, _TRANSPOSED = 0, 1, 2
# What the kernel of a dtype converts to it, besides what it copies.
_CONVERTED = {
    torch.float32: torch.float64,
    torch.float64: None,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}
# The dtypes as the kernels spell them.
TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}
_WIDEST_ACCESS = 16  # bytes
# Of an axis of so few elements a tile that is transposed would be nearly empty.
_FEW_NEIGHBOURS = 8
_OUTER = 3  # axes besides the parts and the last one
_MOST_ITEMS = 2**31
# Partial sums that a launch adds at most: it has a thread per result. Of more, torch first adds
# groups: all at once, 384 results of 512 rows each, take it 12 us of few SMs on an H100.
_MOST_PARTS, _GROUPS = 64, 16
_BLOCKS_PER_MULTIPROCESSOR = 8
_WORDS = 17  # of a job
# The blocks that a job can use, and its struct.
_Words = tuple[int, list[int]]


class Job(NamedTuple):
    """Tensor of four axes at most to write, without gaps on the last: the sum of its parts."""

    to: Tensor
    parts: Tensor


# Mirror of `Jobs`.
_NUMBERS = ("numbers", NUMBER * (_WORDS - 2))
_Jobs = structure(
    "Jobs", ("jobs", structure("Job", *fields(POINTER, "source to"), _NUMBERS) * _MOST)
)


def rearrange(jobs: Sequence[Job]) -> None:
    """Write the sum of each tensor's parts, all of one device, on torch's current stream.

    Sums of elements of 4 bytes and more are taken in float64.
    """
    found: dict[torch.dtype, list[_Words]] = {}
    for job in jobs:
        if not job.to.numel():
            continue
        words = _words(job)
        if words is None:
            by_torch(job)
        else:
            found.setdefault(job.to.dtype, []).append(words)
    for dtype, each in found.items():
        for first in range(0, len(each), _MOST):
            _launch(each[first : first + _MOST], dtype, jobs[0].to.device)


def _launch(
    some: Sequence[tuple[int, list[int]]], dtype: torch.dtype, device: torch.device
) -> None:
    """Write some tensors of a dtype by one launch."""
    numbers = array("q", [word for _, words in some for word in words])
    numbers.extend([0] * (_MOST * _WORDS - len(numbers)))
    with on_device(device):
        kernel = kernel_writing(dtype, device.index)
        most = device_limits(device.index).multiprocessors * _BLOCKS_PER_MULTIPROCESSOR
        blocks = max(count for count, _ in some)
        kernel((min(blocks, most), len(some), 1), _Jobs.from_buffer(numbers))


def in_order(tensor: Tensor) -> tuple[Tensor, list[Job]]:
    """Return a tensor of at most four axes without gaps, and the job that fills it if it is new."""
    if tensor.is_contiguous():
        return tensor, []
    to = tensor.new_empty(tensor.shape)
    return to, [Job(to, tensor[None])]


def put_in_order(tensor: Tensor) -> Tensor:
    """Return a tensor of at most four axes without gaps, filled on torch's current stream."""
    to, jobs = in_order(tensor)
    rearrange(jobs)
    return to


def packed_or_none(tensor: Tensor | None) -> Tensor | None:
    """Return `packed` of a tensor that may be missing."""
    return None if tensor is None else packed(tensor)


def packed(tensor: Tensor) -> Tensor:
    """Return the tensor, contiguous and aligned for wide accesses; a copy if it is not."""
    if tensor.is_contiguous() and tensor.data_ptr() % _WIDEST_ACCESS == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def rows_packed(tensor: Tensor) -> Tensor:
    """Return the tensor, or a copy whose steps of a row are contiguous and aligned."""
    width = _WIDEST_ACCESS // tensor.element_size()
    packed = 1  # the stride of a contiguous axis
    for size, stride in zip(tensor.shape[:1:-1], tensor.stride()[:1:-1], strict=True):
        if size > 1 and stride != packed:
            return tensor.contiguous()
        packed *= size
    step = math.gcd(width, packed)
    outer = tensor.stride()[:2]
    if tensor.data_ptr() % _WIDEST_ACCESS or outer[0] % step or outer[1] % step:
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor


def new_of_heads(like: Tensor, shape: Sequence[int], axis: int, by_head: bool) -> Tensor:
    """Return an empty tensor, which may lie head by head.

    Then no head has gaps, nor have those of a direction. Autograd keeps such a gradient as it is,
    and copies one with gaps. The axis is that of the heads.
    """
    if not by_head or shape[axis] == 1:
        return like.new_empty(shape)
    return like.new_empty(shape[axis], *shape[:axis], *shape[axis + 1 :]).movedim(0, axis)


def by_torch(job: Job) -> None:
    """Do one job by operators of torch, on any device."""
    to, parts = job
    to.copy_(parts[0] if len(parts) == 1 else parts.sum(0))


def _words(job: Job) -> _Words | None:
    """Return the blocks that a job can use, and its struct; None if the kernel does not take it."""
    to, parts = job
    converted = parts.dtype != to.dtype
    *sizes, inner = to.shape
    part, *strides, inner_stride = parts.stride()
    *to_strides, last = to.stride()
    part = part if len(parts) > 1 else 0
    if not to.is_cuda or len(sizes) > _OUTER or to.numel() >= _MOST_ITEMS:
        return None
    if to.dtype not in TYPES or (converted and parts.dtype != _CONVERTED[to.dtype]):
        return None
    if last != 1 and inner > 1:
        return None
    lead = _OUTER - len(sizes)
    outer = *[1] * lead, *sizes, *[0] * lead, *strides, *[0] * lead, *to_strides
    places = parts.data_ptr(), to.data_ptr()
    if inner_stride == 1 or inner == 1:
        bytes_at_once = _WIDE * parts.element_size(), _WIDE * to.element_size()
        aligned = all(p % min(b, 16) == 0 for p, b in zip(places, bytes_at_once, strict=True))
        wide = aligned and not any(n % _WIDE for n in (inner, part, *strides, *to_strides))
        way, each = (_SEVERAL, _WIDE) if wide else (_ONE, 1)
        blocks = math.ceil(to.numel() / (_THREADS * each))
    elif sizes and strides[-1] == 1 and inner <= _FEW_NEIGHBOURS:
        way, blocks = _ONE, math.ceil(to.numel() / _THREADS)
    elif sizes and strides[-1] == 1:
        tiles = math.ceil(sizes[-1] / _TILE) * math.ceil(inner / _TILE)
        way, blocks = _TRANSPOSED, math.prod(sizes[:-1]) * tiles
    else:
        return None
    return blocks, [*places, int(converted), way, len(parts), part, *outer, inner, inner_stride]


def jobs_of_splits(
    parts: Tensor, counts: Sequence[int], like: Tensor, by_head: Sequence[bool]
) -> Iterator[tuple[Tensor, list[Job]]]:
    """Yield a new tensor and the job that fills it, if any, for each range of the second axis."""
    if len(parts) > _MOST_PARTS:
        groups = next(n for n in range(_GROUPS, 0, -1) if len(parts) % n == 0)
        parts = parts.reshape(groups, len(parts) // groups, *parts.shape[1:]).sum(1)
    first = 0
    for count, own in zip(counts, by_head, strict=True):
        to = new_of_heads(like, (count, *parts.shape[2:]), 1, own)
        yield to, [Job(to, parts[:, first : first + count])] if count else []
        first += count


def kernel_writing(dtype: torch.dtype, device: int) -> Kernel:
    """Return the kernel that writes a dtype, compiled if it is not kept."""
    return unit_kernel("rearrange", _THREADS, "rnnc_rearrange", device, TYPES[dtype])


@lru_cache(maxsize=64)
def begin_kernel(dtype: torch.dtype, device: int) -> None:
    """Let a thread compile the kernel that writes a dtype, which first calls need, if not kept."""
    if dtype in TYPES:
        begin_to_compile(unit_of("rearrange", TYPES[dtype]), device_limits(device).arch)


class CudaMoves(Moves):
    """Collector of copies, which are done when the context ends."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            rearrange(self._jobs)

    def cat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return tensors of at most four axes beside each other on one, alike in the others."""
        shape = list(tensors[0].shape)
        counts = [tensor.shape[axis] for tensor in tensors]
        shape[axis] = sum(counts)
        to, first = tensors[0].new_empty(shape), 0
        for tensor, count in zip(tensors, counts, strict=True):
            self._jobs.append(Job(to.narrow(axis, first, count), tensor[None]))
            first += count
        return to

    def packed(self, tensor: Tensor) -> Tensor:
        """Return a tensor of at most four axes without gaps; itself, if it has none."""
        to, jobs = in_order(tensor)
        self._jobs += jobs
        return to
