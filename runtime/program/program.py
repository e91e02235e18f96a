"""Programs: what calls of one kind ask of the device, executed on the tensors of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .ops import Op, Running, View

_WIDEST_ACCESS = 16  # bytes


class Program:
    """Work of a call on the device, in order. It holds no tensor of a call but constants.

    The operations make `made` tensors. The first constant has the slot -1, the second -2; constants
    outlive calls. `empty` inputs have no elements.
    """

    __slots__ = ("_constants", "_empty", "_places", "ops", "results")

    def __init__(
        self,
        ops: Sequence[Op],
        made: int,
        constants: Sequence[Tensor],
        results: Sequence[View | None],
        empty: int,
    ) -> None:
        self.ops, self.results, self._empty = tuple(ops), tuple(results), empty
        self._constants = [*[None] * made, *constants[::-1]]
        self._places = [*[0] * made, *(tensor.data_ptr() for tensor in constants[::-1])]

    def __call__(self, inputs: Sequence[Tensor], stream: int) -> list[Any] | None:
        """Return the results; None if the call has to run as if nothing was recorded.

        Inputs are like those of the recorded call, in sizes, strides, dtype and device.
        """
        addresses = [tensor.data_ptr() for tensor in inputs]
        # Fully sharded modules free memory between calls.
        if not aligned(addresses) or addresses.count(0) != self._empty:
            return None
        running = Running(stream, [*inputs, *self._constants], addresses + self._places)
        try:
            for op in self.ops:
                op(running)
        except BaseException as error:
            running.give_up()
            if running.spent or not isinstance(error, torch.OutOfMemoryError):
                raise
            return None  # another plan may need less
        tensors = running.tensors
        return [None if view is None else view.of(tensors) for view in self.results]


def aligned(addresses: Sequence[int]) -> bool:
    """Return True if kernels can read memory at such addresses by their widest accesses."""
    bits = 0
    for address in addresses:
        bits |= address
    return not bits % _WIDEST_ACCESS
