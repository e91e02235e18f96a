"""The forward of all layers of a call, by a schedule."""

from __future__ import annotations

import torch
from torch import Tensor

from ...call import tensors
from ...call.requests import LayersCall
from ...call.tensors import ScanInputs
from .. import kernels
from ..driver.streams import on_device
from ..prepared import Prepared, prepare
from ..products.inputs import packed_rows
from .products import Between
from .run import Chunks, LaterLaunch, Layers, run_group
from .schedule import Schedule


class Forward:
    """Forward from the first layer to the last.

    The schedule cuts products into chunks, and `alone` is a layer that runs by itself.

    Attributes:
        wx: the input's share of the next layer, (B, T, N, D, Gx); it may be overwritten.
        results: of each layer that has run.
        masks: of each dropout.
    """

    def __init__(self, asked: LayersCall, schedule: Schedule, alone: Prepared, wx: Tensor) -> None:
        self.asked, self.schedule, self.alone, self.wx = asked, schedule, alone, wx
        self.results: list[tensors.Forward] = []
        self.masks: list[Tensor] = []
        self.chunks = Chunks(wx.shape[1], schedule.chunk, descending=False)

    def run_all(self) -> None:
        """Run all layers."""
        first = 0
        with on_device(self.wx.device):
            for size in self.schedule.groups:
                self.run(range(first, first + size))
                first += size

    def run(self, group: range) -> None:
        """Run some layers, at once if they are several."""
        asked, ready, several = self.asked, self.alone, len(group) > 1
        if several:
            assert self.schedule.plan is not None
            ready = prepare(ready.cell, self.schedule.plan, ready.sizes, ready.device)
        launches: list[LaterLaunch] = []
        products: list[Between] = []
        for layer in group:
            own = asked.weights[layer]
            inputs = ScanInputs(self.wx, own.R, own.b, asked.first[layer], own.R_diag, own.params)
            launches.append(LaterLaunch())
            self.results.append(
                kernels.forward(
                    ready,
                    inputs,
                    for_backward=asked.layer_call.for_backward,
                    stored=asked.layer_call.stored,
                    donated=True,
                    run=launches[-1] if several else None,
                )
            )
            if layer + 1 < len(asked.weights):
                products.append(self._product(layer + 1))
        if several:
            assert self.schedule.partition is not None
            layers = Layers(ready, group, launches, products, self.chunks)
            run_group(layers, self.schedule.partition)
        else:
            for product in products:
                product.multiply_all(self.chunks.indices)

    def _product(self, layer: int) -> Between:
        """Return the product from the layer below, whose result becomes `wx`."""
        wx = torch.empty_like(self.wx.transpose(0, 1))
        self.wx = wx.transpose(0, 1)
        asked, below = self.asked, self.results[-1].states[0]
        mask = None
        if asked.drawn:
            mask = asked.drawn[layer - 1]
        elif asked.call.dropout:
            # What the mask is drawn for does not matter; the layer below may not have run.
            features = below.view(*below.shape[:2], asked.call.heads * asked.call.dim)
            _, mask = torch.native_dropout(features, asked.call.dropout, True)
            self.masks.append(mask)
        return Between(
            *(wx, below, packed_rows(asked.input_weight(layer)).t(), self.chunks.size),
            forward=True,
            mask=mask,
            scale=asked.call.scale,
            tf32=asked.layer_call.tf32,
        )
