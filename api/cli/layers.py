"""The order in which the layers of a module run on a GPU, which need not be there."""

from __future__ import annotations

from collections import Counter

import torch

from ..codegen.cuda.limits import limits_of
from ..codegen.cuda.wavefront.groups import LayerSizes
from ..codegen.cuda.wavefront.items import check_order, items_of
from ..codegen.shape import DIRECTIONS, Direction, Shape
from ..define import Cell
from ..runtime.call.layer_call import Choice, LayerCall, layer_call_of
from ..runtime.cuda.choose import joins
from ..runtime.cuda.driver.device import describe
from ..runtime.cuda.products.multiply import rounds
from ..runtime.cuda.wavefront.products import Chunks
from ..runtime.cuda.wavefront.schedule import Question, Schedule, schedule_of


def layers_text(
    cell: Cell, shape: Shape, layers: int, bidirectional: bool, variant: str, gpu: str
) -> str:
    """Return how the layers of a training call run in both directions; `gpu` is the name of a GPU.

    Raises:
        RnncError: there is no such GPU, or no plan.
    """
    device, dtype = describe(limits_of(gpu)), getattr(torch, shape.dtype)
    choice = Choice(variant)
    tf32 = rounds(dtype, choice.precision)
    layer_call = layer_call_of(cell.text, "cuda", True, (True,) * len(cell.states), choice, tf32)
    if bidirectional:
        return _directions(layer_call, shape, dtype, device)
    gates = len(cell.input_gates)
    hidden = shape.heads * shape.head_dim
    sizes = LayerSizes(layers, shape.steps, shape.batch, shape.heads, hidden, gates)
    questions = [Question(layer_call, d, sizes, dtype, device, "auto") for d in DIRECTIONS]
    return "\n".join(_line(schedule_of(each), each.direction, sizes) for each in questions)


def _directions(layer_call: LayerCall, shape: Shape, dtype: torch.dtype, device: int) -> str:
    """Return how both directions of a layer run; layers of two directions run in turn."""
    if joins(layer_call, shape.batch, shape.heads, shape.head_dim, dtype, device):
        return f"both directions: one call of {2 * shape.heads} heads per layer"
    return "both directions: a call of each per layer, on two streams"


def _line(schedule: Schedule, direction: Direction, sizes: LayerSizes) -> str:
    """A schedule in words. Its order is checked on the way."""
    if schedule.partition is None or schedule.chunk is None:
        why = schedule.why_not or "at once they would take no less time"
        return f"{direction}: {sizes.layers} layers one after the other ({why})"
    whole = sum(schedule.groups)
    chunks = Chunks(sizes.steps, schedule.chunk, descending=direction == "backward").indices
    counts: Counter[str] = Counter()
    first = 0
    for size in schedule.groups:
        first += size
        items = items_of(size, chunks, first < whole)
        check_order(items)
        counts.update(item.kind for item in items)
    groups = " and then ".join(map(str, schedule.groups))
    kinds = f"{counts['layer']} launches, {counts['product']} products"
    return (
        f"{direction}: {groups} of {whole} layers at once, on {schedule.partition.size}"
        f" multiprocessors, with products of {schedule.chunk} steps: {kinds},"
        f" {counts['handover']} handovers; each wait names a signal that is issued before"
    )
