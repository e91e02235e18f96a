"""Places on the chip where a kernel keeps its data, and bytes that move per step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from ...cellspec.cell import CellSpec
from ...codegen.cuda.alternating.plan import AlternatingPlan
from ...codegen.cuda.block.plan import BlockPlan
from ...codegen.cuda.cluster.plan import ClusterPlan
from ...codegen.cuda.grid.plan import GridPlan
from ...codegen.cuda.kernel_plan import KernelPlan, ResidentPlan
from ...codegen.cuda.limits import Limits
from ...codegen.cuda.mma import K_TILE_BYTES, K_TILE_REGISTERS, TILE_N
from ...codegen.cuda.tiled_plan import TiledPlan
from ...codegen.derive import derive
from ...codegen.layout import layout_of
from ...codegen.shape import Shape

_SUM_BYTES = 4  # of a partial sum that a cluster's backward sends


class Part(NamedTuple):
    """A part of a memory.

    Attributes:
        label: what lies there.
        size: bytes.
        kind: `"R"`, `"other"` or `"exchange"`, which chooses the colour.
    """

    label: str
    size: int
    kind: str


class Memory(NamedTuple):
    """A memory and what the kernel keeps in it.

    Attributes:
        name: registers or shared memory of one SM, or the L2 cache.
        capacity: bytes.
        parts: what lies there.
    """

    name: str
    capacity: int
    parts: tuple[Part, ...]

    @property
    def free(self) -> int:
        """Bytes that the kernel leaves."""
        return max(self.capacity - sum(part.size for part in self.parts), 0)


class Move(NamedTuple):
    """Bytes that move per step.

    Attributes:
        way: from where to where.
        what: the data.
        size: bytes per step, of the whole call.
    """

    way: str
    what: str
    size: int


@dataclass(frozen=True)
class Chip:
    """One kernel on a GPU.

    Attributes:
        multiprocessors: of the GPU.
        busy: how many of them have blocks.
        group: blocks of one head that work together.
        blocks: of the launch, or of all launches of a step.
        memories: what lies where.
        moves: what moves per step.
        exchanged: bytes that blocks, or warps of a block, hand to each other per step.
    """

    multiprocessors: int
    busy: int
    group: int
    blocks: int
    memories: tuple[Memory, ...]
    moves: tuple[Move, ...]
    exchanged: int

    @classmethod
    def of(cls, cell: CellSpec, shape: Shape, limits: Limits, plan: KernelPlan) -> Chip:
        """Return where the kernel of one direction's plan keeps its data."""
        blocks, group = _blocks(plan, shape)
        on_one = 1
        if isinstance(plan, TiledPlan):
            on_one = min(math.ceil(blocks / limits.multiprocessors), plan.resident)
        exchanged, how = _exchange(cell, shape, plan)
        return cls(
            multiprocessors=limits.multiprocessors,
            busy=min(limits.multiprocessors, math.ceil(blocks / max(on_one, 1))),
            group=group,
            blocks=blocks,
            memories=_memories(cell, shape, limits, plan, on_one),
            moves=(*_traffic(cell, shape, plan), *([Move(*how, exchanged)] if exchanged else ())),
            exchanged=exchanged,
        )


def _blocks(plan: KernelPlan, shape: Shape) -> tuple[int, int]:
    """Blocks of a launch, and those of them that work on one head and tile together."""
    tiles = plan.batch_tiles(shape.batch)
    if isinstance(plan, ClusterPlan):
        return shape.heads * tiles * plan.cluster, plan.cluster
    if isinstance(plan, GridPlan):
        return plan.waiting_blocks(shape.batch, shape.heads), plan.blocks
    if isinstance(plan, AlternatingPlan):
        rows = plan.own.rows if plan.own else TILE_N
        heads = math.ceil(shape.head_dim / TILE_N) * math.ceil(shape.batch / rows)
        return shape.heads * heads, heads
    return shape.heads * tiles, 1


def _memories(
    cell: CellSpec, shape: Shape, limits: Limits, plan: KernelPlan, on_one: int
) -> tuple[Memory, ...]:
    registers, shared, l2 = limits.registers * 4, limits.shared_per_multiprocessor, limits.l2
    weights = len(cell.dense_pairs) * shape.heads * shape.head_dim**2 * shape.element_bytes
    if not isinstance(plan, ResidentPlan):
        return (
            Memory("registers of one SM", registers, ()),
            Memory("shared memory of one SM", shared, ()),
            Memory("L2 cache", l2, (Part("R, read again in each step", min(weights, l2), "R"),)),
        )
    held = getattr(plan, "matrix_registers", 0) * plan.threads * 4 * on_one
    used = plan.registers * plan.threads * 4 * on_one
    in_registers = [Part("R", held, "R"), Part("other values", used - held, "other")]
    in_shared, in_l2 = [Part("states, inputs, buffers", plan.shared * on_one, "other")], []
    if isinstance(plan, GridPlan):
        tiles = 4 * plan.threads * K_TILE_REGISTERS * plan.tiles
        part = min(tiles * plan.shared_k_tiles, plan.shared)
        in_shared = [
            Part("R", part, "R"),
            Part("states, inputs, buffers", plan.shared - part, "other"),
        ]
        buffers = plan.buffer_bytes(shape.batch, shape.heads)
        in_l2 = [
            Part("R, read again in each step", min(buffers.fixed, l2), "R"),
            Part("exchange of one step", buffers.per_step, "exchange"),
        ]
    return (
        Memory("registers of one SM", registers, _real(in_registers)),
        Memory("shared memory of one SM", shared, _real(in_shared)),
        Memory("L2 cache", l2, _real(in_l2)),
    )


def _real(parts: list[Part]) -> tuple[Part, ...]:
    return tuple(part for part in parts if part.size > 0)


def _traffic(cell: CellSpec, shape: Shape, plan: KernelPlan) -> list[Move]:
    pointwise = derive(cell, activations=plan.save == "gates")
    elements = shape.batch * shape.heads * shape.head_dim * shape.element_bytes
    given, states = len(cell.input_gates) + len(cell.inputs), len(cell.states)
    saved = len(pointwise.saved) if plan.save == "gates" else 0
    read, gates = len(pointwise.reads), len(layout_of(cell).gradients)
    if plan.direction == "forward":
        found = [
            Move("memory → SM", "inputs of the gates", given * elements),
            Move("SM → memory", "new states", states * elements),
            Move("SM → memory", "saved for the backward", saved * elements),
        ]
    else:
        found = [
            Move("memory → SM", "saved values and states", (saved + read) * elements),
            Move("memory → SM", "inputs of the cell", len(cell.inputs) * elements),
            Move("memory → SM", "gradient of the output", elements),
            Move("SM → memory", "gradients of the gates", gates * elements),
        ]
    if isinstance(plan, AlternatingPlan):
        weights = len(cell.dense_pairs) * shape.heads * shape.head_dim**2 * shape.element_bytes
        found.append(Move("L2 → SM", "R", weights))
    if isinstance(plan, GridPlan) and plan.streams:
        streamed = plan.buffer_bytes(shape.batch, shape.heads).fixed
        found.append(Move("L2 → SM", "the streamed part of R", streamed))
    return [move for move in found if move.size]


def _exchange(cell: CellSpec, shape: Shape, plan: KernelPlan) -> tuple[int, tuple[str, str]]:
    """Bytes that threads hand to each other per step, on which way, and what they are."""
    layout = layout_of(cell)
    sources, pairs = len(layout.sources), len(layout.pair_gates)
    rows = shape.batch * shape.heads * shape.head_dim * shape.element_bytes
    forward = plan.direction == "forward"
    what = "states" if forward else "gradients of gates"
    if isinstance(plan, BlockPlan):
        return (sources if forward else pairs) * rows, ("warp → warp, shared memory", what)
    if isinstance(plan, ClusterPlan):
        one = shape.element_bytes if forward else _SUM_BYTES
        received = sources * plan.cluster * plan.units * TILE_N * one
        what = "states" if forward else "partial sums of gradients"
        blocks = shape.heads * plan.batch_tiles(shape.batch) * plan.cluster
        return received * blocks, ("block → block, shared memory", what)
    if isinstance(plan, GridPlan):
        row = plan.rows * plan.exchange_k_tiles * K_TILE_BYTES // plan.cluster
        return row * plan.waiting_blocks(shape.batch, shape.heads), ("block → block, L2", what)
    return (sources if forward else pairs) * rows, ("kernel → kernel, L2", what)
