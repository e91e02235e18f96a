"""Initial states of constant value, made once per size, device and stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from ..plain import all_plain, is_watched
from .kept import freed_with_memory

_LARGEST = 2 * 2**20  # bytes; filling more takes longer than a launch


def constant_states(like: Tensor, values: Sequence[float], shape: Sequence[int]) -> list[Tensor]:
    """Tensors of a constant each, which nobody writes.

    They are cached, since filling them takes as long as a launch.

    Args:
        like: gives dtype and device.
        values: of each tensor.
        shape: of each.
    """
    cached = (
        not torch.compiler.is_compiling()
        and math.prod(shape) * like.element_size() <= _LARGEST
        and all_plain((like,))
        and not is_watched()
        and not torch.cuda.is_current_stream_capturing()
    )
    if not cached:
        return [like.new_full(tuple(shape), value) for value in values]
    stream = torch._C._cuda_getCurrentRawStream(like.device.index)
    return [_constant(like.dtype, like.device, tuple(shape), v, stream) for v in values]


@lru_cache(maxsize=64)
def _constant(
    dtype: torch.dtype, device: torch.device, shape: tuple[int, ...], value: float, stream: int
) -> Tensor:
    with torch.inference_mode(False):
        return torch.full(shape, value, dtype=dtype, device=device)


freed_with_memory(_constant.cache_clear)
