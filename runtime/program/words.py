"""Sizes of tensors and of memory in words, for programs as text."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def tensor_text(shape: Sequence[int], dtype: torch.dtype, count: int) -> str:
    """Return the shape, the dtype and the bytes of a tensor in words."""
    sizes, name = " x ".join(map(str, shape)), str(dtype).removeprefix("torch.")
    return f"{sizes} of {name}, {bytes_text(count)}"


def bytes_text(count: int) -> str:
    """Return a number of bytes in words."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
