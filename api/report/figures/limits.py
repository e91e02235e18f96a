"""Two rooflines, which show how near a kernel is to the GPU's limits, and other packages' times."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from ...cellspec.cell import CellSpec
from ...codegen.cuda.cost.fitted import constants_for
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.limits import KIB, Limits
from ...codegen.shape import Shape
from .chip import Chip
from .plot import Curve, Dot, Plot
from .timeline import Timeline


class Peer(NamedTuple):
    """The measured time of another package for the same cell, dtype and batch.

    Attributes:
        name: of the package.
        size: heads and head dim.
        forward: microseconds per step of a forward in training.
        both: microseconds per step of forward and backward.
        same: whether the size is the report's.
        note: what to know about the figure.
        source: the machine, the date, the command and the file.
    """

    name: str
    size: str
    forward: float
    both: float
    same: bool
    note: str
    source: str


@dataclass(frozen=True)
class Rooflines:
    """The rooflines of a plan's kernels.

    Attributes:
        latency: microseconds per step against the KiB that a block receives per step.
        memory: operations per second against operations per byte of device memory; None if the
            package has no figures of the GPU.
        source: of the GPU's figures.
        peers: other packages; empty if none was measured for the cell, dtype and batch.
        peers_source: where and when they were measured, and the files.
    """

    latency: Plot
    memory: Plot | None
    source: str
    peers: tuple[Peer, ...]
    peers_source: str


Kernels = tuple[tuple[KernelPlan, Chip, Timeline], ...]


def rooflines_of(cell: CellSpec, shape: Shape, limits: Limits, kernels: Kernels) -> Rooflines:
    """The rooflines of both kernels of a plan.

    Args:
        cell: the cell.
        shape: sizes and dtype.
        limits: the GPU.
        kernels: per direction the plan, where it keeps its data, and its estimated time.
    """
    peers = _peers(cell, shape, data("peers.json"))
    gpus = data("gpus.json")["gpus"]  # by their presets, and as devices call themselves
    gpu = next((g for g in gpus if limits.name in (g["name"], *g["devices"])), None)
    # At the report's size, and on its GPU: only these belong into its plots.
    near = [p for p in peers if gpu and p.same and f"NVIDIA {gpu['name']}," in p.source]
    return Rooflines(
        latency=_latency(limits, kernels, near),
        memory=_memory(cell, shape, gpu, kernels, near) if gpu else None,
        source=gpu["source"] if gpu else "",
        peers=peers,
        peers_source="; ".join(dict.fromkeys(peer.source for peer in peers)),
    )


@cache
def data(name: str) -> Any:
    """One of the report's data files, by its name."""
    text = resources.files("rnnc.report").joinpath("data").joinpath(name).read_text("utf-8")
    return json.loads(text)


def _latency(limits: Limits, kernels: Kernels, peers: list[Peer]) -> Plot:
    constants = constants_for(limits)
    received = [chip.exchanged / max(chip.blocks, 1) / KIB for _, chip, _ in kernels]
    low = min([0.25, *(r / 2 for r in received if r)])
    high = max([64.0, *(2 * r for r in received)])
    xs = [low * (high / low) ** (i / 24) for i in range(25)]
    block, cluster, grid = constants.block, constants.cluster, constants.grid
    smallest = min(size.forward for size in cluster.size.values())
    floors = (
        ("block", lambda _: block.exchange.forward),
        ("cluster", lambda x: cluster.exchange.forward + smallest + x * cluster.received.forward),
        ("grid", lambda x: grid.hop.forward + x * grid.gather.forward),
        ("alternating", lambda _: constants.fused.overlapped_hop + constants.fused.chain),
    )
    curves = [Curve(n, tuple((x, floor(x) / 1000) for x in xs)) for n, floor in floors]
    dots = [
        Dot(line.direction, max(x, low), (line.measured or line.total) / 1000)
        for x, (_, _, line) in zip(received, kernels, strict=True)
    ]
    # What a block of theirs receives is not known: they stand at the place of this cell's.
    dots += [
        Dot(f"{peer.name}, {dot.name}", dot.x, took, other=True)
        for peer in peers
        for dot, took in zip(dots[:2], (peer.forward, peer.both - peer.forward), strict=True)
    ]
    return Plot(
        "Latency roofline",
        "KiB that a block receives per step",
        "µs per step",
        tuple(curves),
        tuple(dots),
    )


def _memory(
    cell: CellSpec, shape: Shape, gpu: dict[str, Any], kernels: Kernels, peers: list[Peer]
) -> Plot | None:
    peak = gpu["tensor_tflops"].get(shape.dtype)
    if peak is None or not cell.dense_pairs:
        return None
    units = shape.batch * shape.heads * shape.head_dim
    operations = 2 * len(cell.dense_pairs) * shape.head_dim * units
    bandwidth = gpu["bandwidth_gb_s"] / 1000  # TB/s
    dots = []
    for _, chip, line in kernels:
        moved = sum(
            move.size for move in chip.moves if "memory →" in move.way or "→ memory" in move.way
        )
        took = line.measured or line.total
        dots.append(Dot(line.direction, operations / moved, operations / took / 1000))
    # Theirs as if they moved as many bytes; both directions have a product of the same size.
    dots += [
        Dot(f"{peer.name}, {dot.name}", dot.x, operations / took / 1e6, other=True)
        for peer in peers
        for dot, took in zip(dots[:2], (peer.forward, peer.both - peer.forward), strict=True)
    ]
    low = min([1.0, *(d.x / 2 for d in dots)])
    high = max([4 * peak / bandwidth, *(d.x * 2 for d in dots)])
    ridge = peak / bandwidth
    roof = Curve("roof", ((low, low * bandwidth), (ridge, peak), (high, peak)))
    return Plot(
        "Memory and tensor roofline",
        "operations of the product per byte of device memory",
        "TFLOP/s",
        (roof,),
        tuple(dots),
    )


def _peers(cell: CellSpec, shape: Shape, found: dict[str, Any]) -> tuple[Peer, ...]:
    rows = []
    for peer in found["peers"]:
        if (peer["cell"], peer["dtype"], peer["batch"]) != (cell.name, shape.dtype, shape.batch):
            continue
        scale = 1000 / peer["steps"]
        same = (peer["heads"], peer["head_dim"]) == (shape.heads, shape.head_dim)
        size = f"{peer['heads']} × {peer['head_dim']}"
        times = peer["forward_ms"] * scale, peer["both_ms"] * scale
        source = found["sources"][peer["source"]]
        rows.append(Peer(peer["name"], size, *times, same, peer["note"], source))
    nearest = shape.heads * shape.head_dim
    rows.sort(key=lambda p: (not p.same, abs(math.log(_units(p.size) / nearest))))
    return tuple(rows)


def _units(size: str) -> int:
    heads, dim = size.split(" × ")
    return int(heads) * int(dim)
