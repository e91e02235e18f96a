"""Layers of a call by a schedule, some of them at the same time: forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import torch
from torch import Tensor

from ....codegen.shape import Direction
from ...call.requests import LayerBackward, LayersCall, LayersRead
from ...call.tensors import Forward, ScanInputs
from .. import kernels
from ..driver.matmul import aligned
from ..driver.partition import Partition
from ..driver.streams import on_device
from ..prepared import Prepared, prepare
from ..products.inputs import packed_rows, project_at
from ..products.multiply import multiplier
from ..ready import check_counts, ready_for
from .products import Between, Chunks
from .run import LaterLaunch, Layers, run_group
from .schedule import Question, Schedule, schedule_of, sizes_of_layers


class Pass:
    """Pass over all layers of a call on x, (T, B, input); `alone` is a layer that runs alone."""

    direction: Direction

    def __init__(self, asked: LayersCall, schedule: Schedule, x: Tensor) -> None:
        sizes, kind = (x.shape[1], asked.call.heads, asked.call.dim), (x.dtype, x.device.index)
        self.alone = ready_for(asked.layer_call, self.direction, *sizes, *kind, False)
        self.asked, self.schedule, descending = asked, schedule, self.direction == "backward"
        self._numbers = range(len(asked.weights))[:: -1 if descending else 1]
        self.chunks = Chunks(len(x), schedule.chunk, descending)

    def run_all(self) -> None:
        """Run all layers, some of them at once."""
        first = 0
        for size in self.schedule.groups:
            self._run(self._numbers[first : first + size])
            first += size

    def _run(self, group: Sequence[int]) -> None:
        ready, plan, several = self.alone, self.schedule.plan, len(group) > 1
        if several:
            assert plan is not None
            ready = prepare(ready.cell, plan, ready.sizes, ready.device)
        launches = [LaterLaunch() for _ in group]
        runs = launches if several else [None] * len(group)
        found = [self._begin(*each, ready) for each in zip(group, runs, strict=True)]
        products = [product for product in found if product is not None]
        if several:
            assert self.schedule.partition is not None
            layers = Layers(ready, group, launches, products, self.chunks)
            self._run_together(layers, self.schedule.partition)
        else:
            for product in products:
                for chunk in self.chunks.indices:
                    product.multiply(chunk)
            self._end()

    def _begin(self, layer: int, run: LaterLaunch | None, ready: Prepared) -> Between | None:
        """Run a layer, or have `run` note its launch; return the product that follows."""
        raise NotImplementedError

    def _run_together(self, layers: Layers, partition: Partition) -> None:
        """Launch layers that have begun."""
        run_group(layers, partition)

    def _end(self) -> None:
        """End a layer that ran alone."""


class ForwardPass(Pass):
    """Forward from the first layer to the last.

    Attributes:
        wx: the input's share of the next layer, (B, T, N, D, Gx); it may be overwritten.
        results: of each layer that has run.
        masks: of each dropout.
    """

    direction = "forward"

    def __init__(self, asked: LayersCall, schedule: Schedule, x: Tensor) -> None:
        self.wx = project_at(x, asked.input_weight(0), asked.layer_call.tf32)
        super().__init__(asked, schedule, x)
        self.results: list[Forward] = []
        self.masks: list[Tensor] = []

    def _begin(self, layer: int, run: LaterLaunch | None, ready: Prepared) -> Between | None:
        asked, own = self.asked, self.asked.weights[layer]
        given = own.R, own.b, asked.first[layer], own.R_diag, own.params
        inputs = ScanInputs(self.wx, *given, to=asked.to[layer])
        self.results.append(
            kernels.forward(
                ready,
                inputs,
                for_backward=asked.layer_call.saves_gates,
                stored=asked.layer_call.stored,
                donated=True,
                run=run,
            )
        )
        return self._product(layer + 1) if layer + 1 < len(asked.weights) else None

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
        matrix = packed_rows(asked.input_weight(layer)).t()
        return Between(asked, self.chunks, wx, below, matrix, mask)


class BackwardPass(Pass):
    """Backward from the last layer to the first.

    Attributes:
        d_y: the gradient of the output of the next layer, (T, B, features), or None for zero.
        unfinished: the layers whose sums over time are still to be computed: those of a group run
            beside the next group, and in the last group those of a layer beside the next layers.
    """

    direction = "backward"

    def __init__(self, asked: LayersCall, schedule: Schedule, reads: LayersRead) -> None:
        super().__init__(asked, schedule, reads.x)
        self.reads, self.d_y = reads, reads.d_y
        self.begun: list[tuple[int, kernels.Backward, Tensor]] = []
        self.unfinished: list[tuple[int, kernels.Backward, Tensor]] = []

    def run_all(self) -> None:
        """Run all layers, and compute all their sums over time."""
        super().run_all()
        self.finish_layers()

    def _begin(self, layer: int, run: LaterLaunch | None, ready: Prepared) -> Between | None:
        saved, d_last = self.reads.layer(layer)
        like = saved.initial_states[0]
        d_output = None if self.d_y is None else self.d_y.view(-1, *like.shape)
        d_states = [d_output, *[None] * (len(saved.states) - 1)]
        read = LayerBackward(saved, d_states, d_last, self.reads.donated)
        multiplies = multiplier(like.dtype, self.asked.layer_call.tf32)
        own = kernels.Backward(ready, read, multiplier=multiplies, run=run)
        self.begun.append((layer, own, own.start()))
        return self._product(layer, own.d_wx) if layer else None

    def _run_together(self, layers: Layers, partition: Partition) -> None:
        begun, self.begun = self.begun, []
        is_last = not layers.numbers[-1]
        ended = (lambda place: self._finish(*begun[place])) if is_last else None
        run_group(layers, partition, self.finish_layers, ended)
        self.unfinished = [] if is_last else begun

    def _end(self) -> None:
        self.unfinished, self.begun = self.unfinished + self.begun, []
        self.finish_layers()

    def finish_layers(self) -> None:
        """Compute the sums over time of the layers that have run."""
        unfinished, self.unfinished = self.unfinished, []
        for each in unfinished:
            self._finish(*each)

    def _finish(self, layer: int, own: kernels.Backward, sums: Tensor) -> None:
        self.reads.finish(layer, own.finish(sums))

    def _product(self, layer: int, d_wx: Tensor) -> Between:
        """Return the product to the layer below, whose result becomes `d_y`."""
        asked, W, masks = self.asked, self.asked.input_weight(layer), self.reads.masks
        self.d_y = d_wx.new_empty(*d_wx.shape[:2], W.shape[-1])
        mask = masks[layer - 1] if masks else None
        return Between(asked, self.chunks, self.d_y, d_wx, packed_rows(W), mask)


def forward_layers(asked: LayersCall, x: Tensor) -> tuple[list[Forward], list[Tensor]] | None:
    """Run all layers on x, (T, B, input), by a schedule; None where the caller runs each."""
    schedule = _schedule(asked, "forward", x)
    if not schedule.chunk:
        return None
    run = ForwardPass(asked, schedule, x)
    with on_device(x.device):
        run.run_all()
    return run.results, run.masks


def backward_layers(asked: LayersCall, reads: LayersRead) -> bool:
    """Run the backward of all layers by a schedule; False where the caller runs each."""
    x = reads.x
    schedule = _schedule(asked, "backward", x)
    if not schedule.chunk:
        return False
    run = BackwardPass(asked, schedule, reads)
    with on_device(x.device):
        run.run_all()
    return True


def _schedule(asked: LayersCall, direction: Direction, x: Tensor) -> Schedule:
    """Return the schedule of a direction of a call."""
    call = asked.call
    steps, batch, _ = x.shape
    check_counts(steps, batch, call.heads)
    sizes = sizes_of_layers(asked.layer_call, call, steps, batch)
    above = [each.W.data_ptr() for each in asked.weights[1:] if each.W is not None]
    alignment = aligned(reduce(or_, above, 0))
    kind = x.dtype, x.device.index, call.order, alignment
    with on_device(x.device):
        return schedule_of(Question(asked.layer_call, direction, sizes, *kind))
