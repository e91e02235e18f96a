"""Times zoneout of both states of an LSTM beside the LSTM alone: what drawn inputs cost.

    python benchmarks/noise.py [--device cuda] [--json table.json]

Forward and backward of `rnnc.scan` in turns on the same tensors, T 1024, as GPU time on a GPU. The
draws of both masks are part of each call. Goal: rows 3 x 256 and 1 x 768 at most 8 % longer than
without zoneout, row 12 x 64 at most 15 %. The last column is zoneout in evaluation, `sample=False`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import rnnc
import torch
import typer
from rnnc.bench.report import Record
from rnnc.bench.timing import WARM_UPS, clock_of
from rnnc.bench.turns import in_turns
from torch import Tensor

ROWS = ((12, 64), (3, 256), (1, 768))
BATCH, PROBABILITY = 16, 0.1


def training(cell: rnnc.Cell, sample: bool, tensors: list[Tensor]) -> Callable[[], object]:
    """Return what runs a forward and its backward, and gives every gradient."""
    wx, R, b = tensors
    seeds: list[Tensor] = []

    def run() -> object:
        (h, _), _ = rnnc.scan(cell, wx, R, b, sample=sample)
        if not seeds:
            seeds.append(torch.randn_like(h))
        return torch.autograd.grad(h, tensors, seeds)

    return run


def main(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cuda",
    dtype: Annotated[str, typer.Option(help="Of the tensors.")] = "bfloat16",
    steps: Annotated[int, typer.Option(help="Steps of a sequence.")] = 1024,
    repeat: Annotated[int, typer.Option(help="Timed calls of each.")] = 40,
    output: Annotated[Path | None, typer.Option("--json", help="A file for the table.")] = None,
) -> None:
    """Measure, and print a table."""
    record, table = Record(device, f"python {' '.join(sys.argv)}"), {}
    record.into(output)
    print(f"{'':8} {'LSTM, ms':>9} {'zoneout':>8} {'more':>6} {'evaluation':>10} {'more':>6}")
    plain, noisy = rnnc.cells.lstm, rnnc.zoneout(rnnc.cells.lstm, PROBABILITY)
    ways = {"lstm": (plain, True), "zoneout": (noisy, True), "evaluation": (noisy, False)}
    for heads, dim in ROWS:
        draw = partial(torch.randn, device=device, dtype=getattr(torch, dtype))
        shapes = (BATCH, steps, heads, dim, 4), (4, heads, dim, dim), (4, heads, dim)
        tensors = [draw(shape).mul_(dim**-0.5).requires_grad_() for shape in shapes]
        runs = {name: training(*way, tensors) for name, way in ways.items()}
        clocks = {name: clock_of(run, device, WARM_UPS) for name, run in runs.items()}
        found = in_turns(clocks, repeat, shuffled=True)
        lstm, zoneout, evaluation = (median(found[name]) for name in ways)
        row = f"{heads} x {dim}"
        table[row] = {"lstm": lstm, "zoneout": zoneout, "evaluation": evaluation}
        print(
            f"{row:8} {lstm:9.3f} {zoneout:8.3f} {zoneout / lstm - 1:6.1%}"
            f" {evaluation:10.3f} {evaluation / lstm - 1:6.1%}"
        )
    record.write(milliseconds=table)


if __name__ == "__main__":
    typer.run(main)
