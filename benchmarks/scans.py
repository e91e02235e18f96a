"""Times `rnnc.scan` of cells with stages, or of cells without R, in the ways that run them.

    python benchmarks/scans.py stages [--json table.json]
    python benchmarks/scans.py walks [--json table.json]
    python benchmarks/scans.py scans [--json table.json]

A table has GPU times of a forward that a backward follows, and of both, in ms: medians of runs in
turns on the same tensors. "reference" is the loop over operations of torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import rnnc
import torch
import typer
from rnnc.bench.report import Record
from rnnc.bench.timing import clock_of
from rnnc.bench.turns import in_turns
from torch import Tensor

ENOUGH = 300  # milliseconds: a contender that took as long has no further runs


class Case(NamedTuple):
    """A call: the cell, sizes, and plans that run it beside the reference, if that is quick."""

    cell: str
    batch: int
    steps: int
    heads: int
    dim: int
    ways: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.cell} B {self.batch}, {self.heads} x {self.dim}, T {self.steps}"


WALKS = ("walk", "block")
STAGED = {
    64: ("block", "alternating", "reference"),
    256: ("cluster", "alternating"),
    768: ("grid", "alternating"),
}  # by the units of a head
WIDE = ("walk", "alternating")  # heads that no block has room for
HEADS = ((12, 64), (3, 256), (1, 768))
TABLES = {
    "stages": [
        *(
            Case(cell, 16, 1024, *heads, STAGED[heads[1]])
            for cell in ("gru_reset_first", "joint_norm_lstm", "lem")
            for heads in HEADS
        ),
        Case("block_gru", 16, 512, 8, 64, STAGED[64]),
    ],
    "walks": [
        Case("hgrn", 16, 16384, 4, 128, WALKS),
        Case("hgrn", 1, 65536, 4, 512, WALKS),
        Case("mingru", 16, 1024, 12, 64, WALKS),
        Case("minlstm", 16, 1024, 12, 64, WALKS),
        Case("qrnn", 64, 1024, 1, 1024, WIDE),
        Case("indrnn", 16, 1024, 1, 768, WIDE),
        Case("lru", 16, 16384, 1, 512, WIDE),
        Case("rg_lru", 4, 8192, 1, 2560, ("walk",)),
        Case("hgrn", 1, 131072, 1, 256, WALKS),
    ],
}
# Of the same calls as a table of walks, those of affine cells.
TABLES["scans"] = [
    case._replace(ways=("walk", "scan")) for case in TABLES["walks"] if case.cell != "indrnn"
]


def tensors_of(case: Case, dtype: torch.dtype) -> dict[str, Any]:
    """Return the arguments of the scan, with gradients."""
    cell, plane = rnnc.cells.get(case.cell), (case.heads, case.dim)

    def draw(*shape: int, scale: float = 1) -> Tensor:
        return torch.randn(shape, device="cuda", dtype=dtype).mul_(scale).requires_grad_()

    dense, diagonal, bias = len(cell.dense_pairs), len(cell.diagonal_pairs), len(cell.bias_gates)
    arguments: dict[str, Any] = {
        "wx": draw(case.batch, case.steps, *plane, len(cell.input_gates)),
        "R": draw(dense, *plane, case.dim, scale=case.dim**-0.5) if dense else None,
        "b": draw(bias, *plane) if bias else None,
        "R_diag": draw(diagonal, *plane, scale=0.5) if diagonal else None,
        "params": {
            spec.name: torch.full(
                plane, float(spec.init), device="cuda", dtype=dtype
            ).requires_grad_()
            for spec in cell.params
        },
    }
    return {name: value for name, value in arguments.items() if value is not None and value != {}}


def runs_of(case: Case, way: str, arguments: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return what runs the forward alone, and with its backward."""
    choice = {"backend": way} if way == "reference" else {"variant": way}
    leaves = [t for t in arguments.values() if isinstance(t, Tensor)]
    leaves += arguments.get("params", {}).values()
    call = partial(rnnc.scan, case.cell, **arguments, **choice)

    def both() -> object:
        y = call()[0][0]
        return torch.autograd.grad(y, leaves, y.detach(), allow_unused=True)

    return {"forward": call, "both": both}


def main(
    table: Annotated[str, typer.Argument(help=f"One of {', '.join(TABLES)}.")],
    dtype: Annotated[str, typer.Option(help="Of the tensors.")] = "bfloat16",
    repeat: Annotated[int, typer.Option(help="Timed runs of each.")] = 20,
    output: Annotated[Path | None, typer.Option("--json", help="A file for the table.")] = None,
) -> None:
    """Measure, and print a table."""
    record, found = Record("cuda", f"python {' '.join(sys.argv)}"), {}
    record.into(output)
    for case in TABLES[table]:
        arguments, clocks = tensors_of(case, getattr(torch, dtype)), {}
        for way in case.ways:
            for name, run in runs_of(case, way, arguments).items():
                clocks[way, name] = clock_of(run, "cuda", 1 if way == "reference" else 5)
        times = in_turns(clocks, repeat, shuffled=True, enough=lambda times: sum(times) > ENOUGH)
        row = {way: [median(times[way, name]) for name in ("forward", "both")] for way in case.ways}
        found[str(case)] = row
        texts = (f"{way} {times[0]:.3f} / {times[1]:.3f}" for way, times in row.items())
        print(f"{case!s:45}", ", ".join(texts), flush=True)
    record.write(milliseconds=found)


if __name__ == "__main__":
    typer.run(main)
