"""Schedules of the layers of a call on a GPU: some at the same time, or one after the other.

The rule of the products between layers: where a wavefront is possible for a direction of a call,
`layers="sequential"` cuts them into the same chunks as `layers="wavefront"`, since the library may
take another algorithm for another number of rows. So both give the same bits. `layers="auto"` gives
those bits where it takes the wavefront, and else multiplies all rows at once.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, cast

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ....codegen.cuda.kernel_plan import MOST_BLOCKS, KernelPlan
from ....codegen.cuda.limits import MIB
from ....codegen.cuda.tiled_plan import TiledPlan
from ....codegen.cuda.wavefront.groups import (
    Chip,
    LayerSizes,
    Wavefront,
    chunk_steps,
    gains,
    layer_blocks,
    wavefronts,
)
from ....codegen.cuda.wavefront.partition import PORTABLE_CLUSTER, PRODUCT_CLUSTER, least_free
from ....codegen.shape import Direction, counted
from ....errors import NoCudaError
from ...call.call import Call
from ...call.layer_call import LayerCall, Order, wavefront_error
from ..choose import plan_with_room, question_of
from ..driver.blocks import blocks_per_multiprocessor
from ..driver.device import device_limits, is_described
from ..driver.matmul import WIDEST_ACCESS, multiplies
from ..driver.partition import Partition, partition_of
from ..driver.stream_memory import shared_with_processes
from ..driver.streams import is_capturing, on_device
from ..load import load_kernel
from ..products.multiply import kind_of_rows
from ..spills import MOST_SPILLED, spilled_bytes, tell_of_spills
from .products import is_bounded

# The kinds of plans whose wavefronts `"auto"` takes.
_AUTO_KINDS = frozenset(("block", "cluster"))
# Without a backward nobody keeps the inputs' shares of all layers. Bytes of them in `"auto"`.
_MOST_BUFFERS = 512 * MIB
# Streams that share a queue of the device may wait for each other. The driver has so many itself.
_LEAST_QUEUES = 8
_MOST_THREADS = 2048  # per multiprocessor, of any GPU so far
_LEAST_CAPABILITY = (9, 0)  # of the GPUs on which partitions were measured


class Schedule(NamedTuple):
    """Order in which the layers of a direction of a call run.

    Attributes:
        groups: how many layers run at once, in the order of computation.
        chunk: steps per product between layers; 0 for all.
        partition: the multiprocessors that the layers of a group run on; None where there is none.
        plan: of the kernels of a group of several layers; likewise.
        why_not: what makes a wavefront impossible; empty if it is possible.
    """

    groups: tuple[int, ...]
    chunk: int = 0
    partition: Partition | None = None
    plan: TiledPlan | None = None
    why_not: str = ""

    def one_by_one(self) -> Schedule:
        """Return the same products, and no layers at the same time."""
        return self._replace(groups=(1,) * sum(self.groups))


class Question(NamedTuple):
    """Facts of a schedule; `alignment` bytes divide the addresses of all layers' input weights."""

    layer_call: LayerCall
    direction: Direction
    sizes: LayerSizes
    dtype: torch.dtype
    device: int
    order: Order
    alignment: int = WIDEST_ACCESS


def schedule_of(question: Question) -> Schedule:
    """Return the schedule of a direction; a `PlanError` for a wavefront that is impossible."""
    layer_call, direction, sizes, _, _, order, _ = question
    short = chunk_steps(sizes.steps, sizes.batch) is None
    if sizes.layers == 1 or sizes.steps == 1 or (short and order != "wavefront"):
        return Schedule((1,) * sizes.layers)
    found = _found(question)
    if order != "wavefront":
        return found.one_by_one() if is_capturing(question.device) else found
    why_not = found.why_not
    if not why_not and is_capturing(question.device):
        why_not = "a call that a stream captures"
    if why_not:
        raise wavefront_error(f"{direction} of {layer_call.cell.name}", why_not)
    return found


def sizes_of_layers(layer_call: LayerCall, call: Call, steps: int, batch: int) -> LayerSizes:
    """Return the sizes of a call of several layers."""
    gates = len(layer_call.cell.input_gates)
    return LayerSizes(call.layers, steps, batch, call.heads, call.heads * call.dim, gates)


@lru_cache(maxsize=512)
def _found(question: Question) -> Schedule:
    """Return the schedule, whether or not a stream captures."""
    layer_call, direction, sizes, dtype, device, order, _ = question
    layers, steps, batch, heads, hidden, _ = sizes
    whole = Schedule((1,) * layers)
    asked = question_of(layer_call, batch, heads, hidden // heads, dtype, device)
    # Not `choose_plan`, which compiles the kernel of a layer that runs alone.
    own = plan_with_room(asked, direction).kernel(direction)
    chunk = chunk_steps(steps, batch)
    why_not = _why_not(own, sizes, device)
    if why_not or chunk is None:
        return whole._replace(why_not=why_not or f"{steps} steps, fewer than four chunks")
    plan = replace(cast(TiledPlan, own), wavefront=True)
    if order == "auto":
        # The kernel is compiled only if it may be faster.
        alone, found = wavefronts(plan, sizes, _roomiest_chip(plan, device), chunk)
        if not any(gains(alone, each, sizes, chunk) for each in found):
            return whole
    # The last chunk may have fewer steps, for whose products the library may take other kernels.
    lengths = {chunk, (steps - 1) % chunk + 1}
    if not all(bounded_products(question, n * batch) for n in lengths):
        return whole._replace(why_not="products that may need more room than layers leave them")
    if not is_described(device):
        if order == "auto" and spilled_bytes(layer_call.cell, plan) > MOST_SPILLED:
            return whole  # a layer alone may have another plan, which spills less
        if order == "wavefront":
            tell_of_spills(layer_call.cell, plan)
    alone, found = wavefronts(plan, sizes, _chip(question, plan), chunk)
    if order == "auto":
        # A partition stays for good: one is made for a wavefront that is taken.
        found = [
            each
            for each in found
            if plan.kind in _AUTO_KINDS
            and gains(alone, each, sizes, chunk)
            and (layer_call.for_backward or _buffer_bytes(sizes, each, dtype) <= _MOST_BUFFERS)
        ]
    for best in sorted(found, key=lambda each: each.nanoseconds):
        try:
            partition = _partition(question, plan, best)
        except NoCudaError as error:
            return whole._replace(why_not=f"a driver without partitions: {error.found}")
        if partition is not None:
            break
    else:
        blocks = counted(layer_blocks(plan, batch, heads), "block")
        why_not = f"no room for two layers, of {blocks} each, and the products between them"
        return whole._replace(why_not=why_not)
    schedule = Schedule(best.groups, chunk, partition, plan)
    return schedule.one_by_one() if order == "sequential" else schedule


def bounded_products(question: Question, rows: int) -> bool:
    """Return True if products between layers find room on the current device, as `Between.bounded`.

    A product has `rows`: steps of the chunk times batch rows.
    """
    layer_call, direction, sizes, dtype, device, _, alignment = question
    # As they lie in `Between`: the rows of the weights are those of the gates.
    columns = sizes.gates * sizes.inputs
    shapes = (rows, columns), (rows, sizes.inputs), (columns, sizes.inputs)
    with _disable_current_modes():  # they are no tensors of a call
        outputs, inputs, weights = (
            torch.empty(shape, dtype=dtype, device="meta") for shape in shapes
        )
        forward = direction == "forward"
        operands = (outputs, inputs, weights.t()) if forward else (inputs, outputs, weights)
        kind = kind_of_rows(*operands, layer_call.tf32)  # whose first factor are the weights
    kind = kind._replace(first=kind.first._replace(aligned=alignment))
    return is_bounded(multiplies(kind, device, PRODUCT_CLUSTER))


def _buffer_bytes(sizes: LayerSizes, found: Wavefront, dtype: torch.dtype) -> int:
    """Return the bytes of the inputs' shares of a group's layers, besides that of one layer."""
    units = sizes.steps * sizes.batch * sizes.inputs
    return (max(found.groups) - 1) * units * sizes.gates * dtype.itemsize


def _why_not(plan: KernelPlan, sizes: LayerSizes, device: int) -> str:
    """Return the reason that makes a wavefront impossible, besides room; empty if there is none."""
    if not isinstance(plan, TiledPlan):
        return f"a plan of the kind {plan.kind}"
    limits = device_limits(device)
    if limits.capability < _LEAST_CAPABILITY:
        return f"{limits.name}, of compute capability {limits.capability[0]}.{limits.capability[1]}"
    if not sizes.gates:
        return "a cell that takes no input"
    if not sizes.batch:
        return "no rows"
    if sizes.inputs // sizes.heads % 2 and plan.dtype in ("bfloat16", "float16"):
        return "rows of an odd number of two-byte elements"
    if max(sizes.heads, plan.batch_tiles(sizes.batch)) > MOST_BLOCKS:
        return "a layer of several launches"
    queues = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "")
    if queues.isdecimal() and int(queues) < _LEAST_QUEUES:
        return f"CUDA_DEVICE_MAX_CONNECTIONS={queues}, fewer queues than {_LEAST_QUEUES}"
    if shared_with_processes(device):
        return f"{limits.name}, which other processes share by MPS"
    return ""


def _roomiest_chip(plan: TiledPlan, device: int) -> Chip:
    """Return the room of a device for a layer's kernel, as if that had no registers."""
    limits, (threads, shared, _, _) = device_limits(device), plan.launch_shape
    each = min(_MOST_THREADS // threads, limits.shared_per_multiprocessor // max(shared, 1))
    return Chip(limits.multiprocessors, each)


def _chip(question: Question, plan: TiledPlan) -> Chip:
    """Return the room of a device for a layer's kernel."""
    device = question.device
    if is_described(device):
        return _roomiest_chip(plan, device)
    with on_device(torch.device("cuda", device)):
        kernel = load_kernel(question.layer_call.cell, plan, f"rnnc_{plan.direction}", device)
        each = blocks_per_multiprocessor(kernel.function, kernel.threads, kernel.shared)
    return Chip(device_limits(device).multiprocessors, each)


def _partition(question: Question, plan: TiledPlan, found: Wavefront) -> Partition | None:
    """Return the partition of a wavefront; None if the driver reports less room than estimated."""
    sizes, device = question.sizes, question.device
    cluster, whole = plan.launch_shape.cluster, device_limits(device).multiprocessors
    with on_device(torch.device("cuda", device)):
        partition = partition_of(device, found.partition, cluster > PORTABLE_CLUSTER)
        kernel = load_kernel(question.layer_call.cell, plan, f"rnnc_{plan.direction}", device)
        room = partition.resident_blocks((kernel.function, kernel.threads, kernel.shared), cluster)
    blocks = max(found.groups) * layer_blocks(plan, sizes.batch, sizes.heads)
    fits = blocks <= room and whole - partition.size >= least_free(whole)
    return partition if fits else None
