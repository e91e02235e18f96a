"""Programs as text: their memory, and their operations in the order of issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .seen import Program


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


def text_of(program: Program, inputs: Mapping[str, Tensor], results: Sequence[str | None]) -> str:
    """Return a program in words, by the names of its inputs and results, None for one without."""
    names = dict(enumerate(inputs))

    def name(slot: int, offset: int) -> str:
        known = names.get(slot, f"constant {-slot}" if slot < 0 else f"t{slot}")
        return f"{known} + {offset}" if offset else known

    lines = [
        f"  {each}: {tensor_text(tensor.shape, tensor.dtype, tensor.nbytes)}"
        for each, tensor in inputs.items()
    ]
    lanes = list(dict.fromkeys(op.lane for op in program.ops if op.lane is not None))
    lines = ["inputs", *lines, "operations, on the caller's stream or on another"]
    for number, op in enumerate(program.ops, 1):
        lane = "" if op.lane is None else f"[stream {lanes.index(op.lane) + 1}] "
        lines.append(f"  {number:3}  {lane}{op.text(name)}")
    lines.append("results")
    for view, own in zip(program.results, results, strict=True):
        if view is not None and own is not None:
            lines.append(f"  {own}: {name(view.slot, 0)}")
    return "\n".join(lines)
