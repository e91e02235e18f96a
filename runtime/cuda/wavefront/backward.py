"""The backward of all layers of a call, by a schedule."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ...call.requests import LayersCall, LayersRead
from ...call.tensors import Gradients
from .. import kernels
from ..driver.streams import on_device
from ..prepared import Prepared, launched, prepare
from ..products.inputs import packed_rows
from ..products.multiplier import multiplier
from .products import Between
from .run import Chunks, LaterLaunch, Layers, run_group
from .schedule import Schedule


class Backward:
    """Backward from the last layer to the first.

    The schedule cuts products into chunks, and `alone` is a layer that runs by itself. `finish`
    takes the gradients of a layer, by its number.

    Attributes:
        d_y: the gradient of the output of the next layer, (T, B, features), or None for zero.
        unfinished: the layers whose sums over time are still to be computed: those of a group run
            beside the next group, and in the last group those of a layer beside the next layers.
    """

    def __init__(
        self,
        asked: LayersCall,
        schedule: Schedule,
        alone: Prepared,
        reads: LayersRead,
        finish: Callable[[int, Gradients], None],
    ) -> None:
        self.asked, self.schedule, self.alone = asked, schedule, alone
        self.reads, self.finish, self.d_y = reads, finish, reads.d_y
        self.unfinished: list[tuple[int, kernels.BackwardParts, Tensor]] = []

    def run_all(self) -> None:
        """Run all layers."""
        last = len(self.asked.weights) - 1
        with on_device(self.reads.x.device):
            for size in self.schedule.groups:
                self.run(range(last, last - size, -1))
                last -= size
            self.finish_layers()

    def run(self, group: range) -> None:
        """Run some layers, at once if they are several."""
        layer_call, ready, several = self.asked.layer_call, self.alone, len(group) > 1
        if several:
            assert self.schedule.plan is not None
            ready = prepare(ready.cell, self.schedule.plan, ready.sizes, ready.device)
        launches: list[LaterLaunch] = []
        parts: list[tuple[kernels.BackwardParts, Tensor]] = []
        products: list[Between] = []
        for layer in group:
            saved, d_last = self.reads.layer(layer)
            like = saved.initial_states[0]
            d_output = None if self.d_y is None else self.d_y.view(-1, *like.shape)
            d_states = [d_output, *[None] * (len(saved.states) - 1)]
            launches.append(LaterLaunch())
            own = kernels.backward_parts(
                ready,
                saved,
                d_states,
                d_last,
                multiplier=multiplier(like.dtype, layer_call.tf32),
                donated=self.reads.donated,
                run=launches[-1] if several else None,
            )
            parts.append((own, launched(ready, own.launch, own.steps)))
            if layer:
                products.append(self._product(layer, own.d_wx))
        steps, chunk = parts[0][0].steps, self.schedule.chunk
        chunks = Chunks(steps, chunk, descending=True)
        begun = [(layer, *each) for layer, each in zip(group, parts, strict=True)]
        if several:
            assert self.schedule.partition is not None
            layers = Layers(ready, group, launches, products, chunks)
            is_last = not group[-1]
            ended = (lambda place: self._finish(*begun[place])) if is_last else None
            run_group(layers, self.schedule.partition, self.finish_layers, ended)
            self.unfinished = [] if is_last else begun
        else:
            for product in products:
                product.multiply_all(chunks.indices)
            self.unfinished += begun
            self.finish_layers()

    def finish_layers(self) -> None:
        """Compute the sums over time of the layers that have run."""
        unfinished, self.unfinished = self.unfinished, []
        for each in unfinished:
            self._finish(*each)

    def _finish(self, layer: int, own: kernels.BackwardParts, sums: Tensor) -> None:
        self.finish(layer, own.finish(sums))

    def _product(self, layer: int, d_wx: Tensor) -> Between:
        """Return the product to the layer below, whose result becomes `d_y`."""
        asked, W, masks = self.asked, self.asked.input_weight(layer), self.reads.masks
        self.d_y = d_wx.new_empty(*d_wx.shape[:2], W.shape[-1])
        return Between(
            *(self.d_y, d_wx, packed_rows(W), self.schedule.chunk),
            forward=False,
            mask=masks[layer - 1] if masks else None,
            scale=asked.call.scale,
            tf32=asked.layer_call.tf32,
        )
