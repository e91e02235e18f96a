"""Layers of a step's backward, from the last to the first."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from ...call.tensors import Stepped
from .ready import StepReady
from .tensors import packed_places


class BackwardLayers(ABC):
    """Layers from the last to the first; each leaves the gradient of its input."""

    def __init__(
        self,
        ready: StepReady,
        x: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        d_states: Sequence[Tensor],
        stepped: Stepped,
        gradients: Sequence[Tensor | None],
    ) -> None:
        self.ready, self.d_states = ready, d_states
        tensors = (x, *states, *weights, *gradients, stepped.saved, *stepped.last)
        # The copies live as long as this.
        self.kept, places = packed_places(tensors)
        count, end = len(states), 1 + len(states) + len(weights)
        self.x, self.last = self.kept[0], self.kept[-count:]
        self.from_x, self.before = places[0], places[1 : 1 + count]
        self.from_weights = places[1 + count : end]
        self.d_y, *self.d_after = places[end : end + 1 + count]
        self.saved, *self.after = places[-1 - count :]
        self.d_output: Tensor | None = None

    @abstractmethod
    def run(self, layer: int, lower: bool, wanted: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of a layer's weights; `lower` wants that of its input, too."""

    def weights_of(self, layer: int) -> Sequence[int]:
        """Return the addresses of a layer's flat weights."""
        number = 4 + self.ready.counts.params
        return self.from_weights[layer * number : (layer + 1) * number]

    def pointwise_values(
        self, layer: int, to_inputs: int, to_pairs: int, d_before: Sequence[int], sums: int
    ) -> list[int]:
        """Return the arguments of the kernel of the pointwise map, in their order.

        Args:
            to_inputs: the address of the gradients of gates with an input.
            to_pairs: of those of matrices; 0 where they are the same.
            d_before: of those of the states, without what passes through R; 0 for each not wanted.
            sums: of the sums over the batch; 0 where they are not wanted.
        """
        ready, counts = self.ready, self.ready.counts
        _, _, _, R_diag, *params = self.weights_of(layer)
        offset = self.plane_of(layer) * ready.dtype.itemsize
        return [
            *(ready.batch, ready.heads, ready.dim, R_diag),
            *(params or (0,)),
            *(place + offset for place in self.before),
            *(place + offset for place in self.after),
            self.saved + offset * counts.saved,
            self.d_y if self.d_output is None else self.d_output.data_ptr(),
            *(place and place + offset for place in self.d_after),
            *(to_inputs, to_pairs),
            *d_before,
            sums,
        ]

    def arguments(self, *values: int) -> ctypes.Structure:
        """Return the arguments of a kernel, by the values of all fields and array elements."""
        return self.ready.launcher.arguments.from_buffer(array("q", values))

    def input_of(self, layer: int) -> tuple[int, int]:
        """Return the address of a layer's input, and its features."""
        if not layer:
            return self.from_x, self.x.shape[-1]
        offset = self.plane_of(layer - 1) * self.ready.dtype.itemsize
        return self.after[0] + offset, self.ready.heads * self.ready.dim

    def sums_apart(self, own: Sequence[int], sums: Tensor) -> list[Tensor | None]:
        """Return the gradients of what a layer has of bias, diagonal weights and params."""
        d_b, d_params, d_R_diag = torch.split(sums, self.ready.counts.sums)
        found = (d_b, d_R_diag, *d_params.unbind(0))
        return [new if place else None for place, new in zip(own, found, strict=True)]

    def plane_of(self, layer: int) -> int:
        """Return the count of a state's numbers in the layers below."""
        ready = self.ready
        return layer * ready.batch * ready.heads * ready.dim
