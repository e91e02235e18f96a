"""Programs as text: their memory, and their operations in the order of issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from .ops import bytes_text
from .program import Program


def text_of(program: Program, inputs: Mapping[str, Tensor], results: Sequence[str | None]) -> str:
    """Return a program in words.

    Args:
        program: what to print.
        inputs: its inputs, by name, in their order.
        results: the name of each result, in their order; None for one without a name.
    """
    names = dict(enumerate(inputs))

    def name(slot: int, offset: int) -> str:
        known = names.get(slot, f"constant {-slot}" if slot < 0 else f"t{slot}")
        return f"{known} + {offset}" if offset else known

    lines = [f"  {each}: {_size(tensor)}" for each, tensor in inputs.items()]
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


def _size(tensor: Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{' x '.join(map(str, tensor.shape))} of {dtype}, {bytes_text(tensor.nbytes)}"
