"""The relative error of h over thousands of steps: rnnc and an eager torch loop.

    python benchmarks/error_over_time.py --output benchmarks/results [--limit 40]

Inputs and matrices are drawn in bfloat16 or float16. The truth is the float64 loop over the same
numbers. The eager loop (`backend="reference"`) computes in the same dtype as the kernels. The error
of a step is the norm of the difference divided by the norm of h; both norms are over all heads,
units and batch rows. The file has its root mean square per span of steps; later spans are longer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import rnnc
import torch
import typer
from rnnc.bench.drawing import new_figure, save, source_of, tidy
from rnnc.bench.inputs import DTYPES, Inputs
from rnnc.bench.measure import chosen_plan
from rnnc.bench.report import Record
from rnnc.bench.rows import Row
from rnnc.cli.progress import track
from torch import Tensor

SPANS_PER_DOUBLING = 4
_METHOD = (
    "relative error of h against the float64 loop of the same numbers, norms over heads, units and"
    " batch rows; root mean square over spans of steps, by last step"
)
CELLS, SIZES = ("lstm", "gru"), ((12, 64), (1, 768))
COLOURS = {"bfloat16": "#d1495b", "float16": "#264653", "float32": "#2a9d8f"}
MARKERS = {"block": "s", "cluster": "^", "grid": "o", "alternating": "D"}


def main(
    cells: Annotated[str, typer.Option(help="Names of cells of the library.")] = ",".join(CELLS),
    dtypes: Annotated[str, typer.Option(help="Dtypes of inputs and results.")] = "bfloat16,float16",
    variants: Annotated[str, typer.Option(help="Kinds of plans: auto, block, cluster, …")] = "auto",
    steps: Annotated[int, typer.Option(help="Steps.", min=8)] = 4096,
    batch: Annotated[int, typer.Option(help="Batch rows.", min=1)] = 16,
    limit: Annotated[float, typer.Option(help="Start no case after this many seconds.")] = 600,
    device: Annotated[str, typer.Option(help="cuda, or cpu to test this program.")] = "cuda",
    output: Annotated[Path, typer.Option(help="Output folder.")] = Path("benchmarks/results"),
) -> None:
    """Measure all cases, print them, and write JSON and a picture."""
    began = time.monotonic()
    command = f"python benchmarks/error_over_time.py --variants {variants}"
    record = Record(device, command, method=_METHOD)
    path = output / f"error-over-time-{record.stem.removeprefix('cuda-')}.json"
    record.into(path)
    cases: list[dict[str, Any]] = []
    wanted = [(c, s, d) for c in cells.split(",") for s in SIZES for d in dtypes.split(",")]
    for cell, (heads, dim), dtype in track(wanted, "measuring errors over time"):
        if time.monotonic() - began > limit:
            typer.echo(f"time limit reached before {cell}, {heads} x {dim}, {dtype}")
            break
        torch.manual_seed(0)
        row = Row(cell, heads, dim, batch, steps)
        case = measure(row, dtype, variants.split(","), device)
        cases.append(case)
        for curve in case["curves"]:
            typer.echo(f"{row}, {dtype}, {_line(curve)}")
        record.write(cases=cases)
    if cases:
        plot({**record.head, "cases": cases}, path.with_suffix(".png"))
        typer.echo(f"wrote {path} and its picture")


def measure(row: Row, dtype: str, variants: list[str], device: str) -> dict[str, Any]:
    """The errors of one case: of the kernels of each variant, and of the eager loop."""
    cell = rnnc.cells.get(row.cell)
    inputs = Inputs(cell, row, dtype, device)
    with torch.no_grad():
        truth = _output(cell, inputs, torch.float64, backend="reference")
        curves = []
        for variant in variants:
            name, plan = (f"rnnc {variant}" if device == "cuda" else "rnnc"), None
            try:
                if device == "cuda":
                    chosen = chosen_plan(cell, row, dtype, variant)
                    name, plan = f"rnnc {chosen.variant}", str(chosen)
                h = _output(cell, inputs, DTYPES[dtype], backend=device, variant=variant)
            except rnnc.RnncError as error:
                curves.append({"name": name, "failure": str(error).splitlines()[0]})
                continue
            curves.append({"name": name, "plan": plan} | _errors(h, truth))
        eager = _output(cell, inputs, DTYPES[dtype], backend="reference")
        curves.append({"name": "eager torch loop"} | _errors(eager, truth))
    sizes = {"heads": row.heads, "head_dim": row.head_dim, "batch": row.batch, "steps": row.steps}
    return {"cell": row.cell, **sizes, "dtype": dtype, "curves": curves}


def _output(cell: rnnc.Cell, inputs: Inputs, dtype: torch.dtype, **choice: Any) -> Tensor:
    """The output at all steps, (B, T, N, D)."""

    def cast(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.detach().to(dtype)

    over_time, _ = rnnc.scan(
        cell,
        inputs.wx.detach().to(dtype),
        cast(inputs.R),
        cast(inputs.b),
        R_diag=cast(inputs.R_diag),
        params={name: p.detach().to(dtype) for name, p in inputs.params.items()},
        **choice,
    )
    return over_time[0]


def _errors(h: Tensor, truth: Tensor) -> dict[str, Any]:
    """The relative error per span of steps, and over all steps."""
    difference = (h.double() - truth).square().sum((0, 2, 3))
    size = truth.square().sum((0, 2, 3))
    each = difference / size
    spans = list(_spans(h.shape[1]))
    return {
        "steps": [end for _, end in spans],
        "errors": [each[begin:end].mean().sqrt().item() for begin, end in spans],
        "over_all": (difference.sum() / size.sum()).sqrt().item(),
    }


def _spans(steps: int) -> Iterator[tuple[int, int]]:
    """The first and last step of each span; `SPANS_PER_DOUBLING` spans per doubling."""
    ends = {min(math.ceil(2 ** (i / SPANS_PER_DOUBLING)), steps) for i in range(256)}
    begin = 0
    for end in sorted(ends):
        yield begin, end
        begin = end


def _line(curve: dict[str, Any]) -> str:
    if "failure" in curve:
        return f"{curve['name']}: {curve['failure']}"
    last = curve["errors"][-1]
    return f"{curve['name']}: {curve['over_all']:.2e} over all steps, {last:.2e} over the last"


def plot(content: dict[str, Any], path: Path) -> None:
    """Draw all curves: a panel per cell and size, a colour per dtype."""
    panels: dict[str, list[dict[str, Any]]] = {}
    for case in content["cases"]:
        name = f"{case['cell']}, {case['heads']} x {case['head_dim']}, batch {case['batch']}"
        panels.setdefault(name, []).append(case)
    lines = (len(panels) + 1) // 2
    figure = new_figure(12, 1 + 3.6 * lines)
    grid = figure.subplots(lines, 2, squeeze=False, sharex=True)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes, (name, cases) in zip(grid.flat, panels.items(), strict=False):
        for case in cases:
            for curve in case["curves"]:
                if "errors" in curve:
                    _curve(axes, case["dtype"], curve)
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("step", fontsize=8)
        axes.set_ylabel("relative error of h", fontsize=8)
        tidy(axes)
        axes.legend(fontsize=7)
    save(figure, path, f"Error against float64: {source_of(content)}", dpi=110)


def _curve(axes: Any, dtype: str, curve: dict[str, Any]) -> None:
    ours = curve["name"].startswith("rnnc")
    marker = MARKERS.get(curve["name"].removeprefix("rnnc "), "")
    axes.plot(
        curve["steps"],
        curve["errors"],
        linestyle="-" if ours else ":",
        marker=marker,
        markersize=3,
        color=COLOURS[dtype],
        label=f"{curve['name']}, {dtype}",
    )


if __name__ == "__main__":
    typer.run(main)
