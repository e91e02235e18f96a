"""Counters in device memory by which the layers of a wavefront hand over chunks of steps."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ....codegen.cuda.wavefront.items import Counter
from ..arguments import struct_around
from ..launch import fill_bytes

_BYTES = 4  # of a counter


class Counters:
    """Counters of a call, all zero at first. Layers count in the order of computation."""

    def __init__(self, layers: int, chunks: int, device: torch.device) -> None:
        self._layers, self._chunks = layers, chunks
        self.tensor = torch.empty(layers + 2 * layers * chunks, dtype=torch.int32, device=device)
        fill_bytes(self.tensor, 0)
        self._first = self.tensor.data_ptr()

    def address(self, counter: Counter) -> int:
        """Return the address of a counter of the schedule."""
        kind, layer, chunk = counter
        if kind == "started":
            return self._first + _BYTES * layer
        row = layer if kind == "done" else self._layers + layer
        return self._first + _BYTES * (self._layers + row * self._chunks + chunk)

    def handed(
        self,
        arguments: ctypes.Structure,
        place: int,
        layer: int,
        steps: int,
        hands_over: bool,
    ) -> ctypes.Structure:
        """Return the arguments of a layer's kernel, from those of a direction.

        The layer at the first place in the order of computation waits for none. Its number is that
        in the module, for messages. `hands_over` says that something waits for its chunks, of
        `steps` steps.
        """
        struct: Any = struct_around("LayerArguments", type(arguments))
        found: ctypes.Structure = struct(
            arguments,
            self.address(Counter("ready", place)) if place else None,
            self.address(Counter("done", place)) if hands_over else None,
            self.address(Counter("started", place)),
            steps,
            layer,
        )
        return found
