"""The counters in device memory by which the layers of a wavefront hand over chunks of steps."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import torch

from ..launch import fill_bytes

_BYTES = 4  # of a counter


class ReserveArguments(ctypes.Structure):
    """Mirrors `ReserveArguments` of lib/exchange/reserve.cuh."""

    _fields_ = [
        ("started", ctypes.c_void_p),
        ("layer", ctypes.c_void_p),
        ("blocks", ctypes.c_int64),
    ]


@lru_cache(maxsize=64)
def layer_struct(arguments: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Mirrors the arguments of a layer's kernel: those of a direction, and `HandoverArguments`."""

    class LayerArguments(ctypes.Structure):
        _fields_ = [
            ("arguments", arguments),
            ("ready", ctypes.c_void_p),
            ("done", ctypes.c_void_p),
            ("started", ctypes.c_void_p),
            ("chunk", ctypes.c_int64),
        ]

    return LayerArguments


class Counters:
    """The counters of a call, all zero at first. Layers count in the order of computation.

    Args:
        layers: that run at once.
        chunks: of steps.
        device: of the call.
    """

    def __init__(self, layers: int, chunks: int, device: torch.device) -> None:
        self.layers, self._chunks = layers, chunks
        self.tensor = torch.empty(
            1 + layers + 2 * layers * chunks, dtype=torch.int32, device=device
        )
        fill_bytes(self.tensor, 0)
        self._first = self.tensor.data_ptr()

    @property
    def reserved(self) -> int:
        """The address of the number of blocks that keep multiprocessors free."""
        return self._first

    def started(self, layer: int) -> int:
        """The address of the number of blocks of a layer that have started."""
        return self._first + _BYTES * (1 + layer)

    def done(self, layer: int, chunk: int = 0) -> int:
        """The address of the number of warps that have stored a chunk of a layer."""
        return self._first + _BYTES * (1 + self.layers + layer * self._chunks + chunk)

    def ready(self, layer: int, chunk: int = 0) -> int:
        """The address of the number that says that a layer can read a chunk."""
        return self.done(self.layers + layer, chunk)

    def handed(
        self, arguments: ctypes.Structure, layer: int, steps: int, hands_over: bool
    ) -> ctypes.Structure:
        """The arguments of a layer's kernel.

        Args:
            arguments: of a direction.
            layer: the first one waits for none.
            steps: per chunk.
            hands_over: whether something waits for its chunks.
        """
        struct: Any = layer_struct(type(arguments))
        found: ctypes.Structure = struct(
            arguments,
            self.ready(layer) if layer else None,
            self.done(layer) if hands_over else None,
            self.started(layer),
            steps,
        )
        return found
