"""Splits the time of a step into exchange, product and equations, and reads counters of `ncu`.

    python benchmarks/roofline.py --output benchmarks/results [--rows 2,5,7] [--no-ncu]

There are three views:

- leaving out: the kernel is compiled without its matrix instructions, or without the cell's
  equations, and timed like any call. The time that a step loses is the share of that part. A part
  that overlaps with another has no share. The rest is exchange: waiting, sums among warps and
  blocks, loads and stores. The time of a backward includes its product over all steps, which gives
  the gradient of R.
- the cost model's parts of the same plan.
- `ncu`: counters of one launch, without clock control. ncu runs each kernel alone, several times
  for all counters, and restores its memory in between. So its time is not that of a call, and its
  percentages are means over a whole launch, start and end included. Warps that wait for data of
  other blocks count as long_scoreboard if they read it from L2, else by what their loop does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from rnnc.bench.report import Record
from rnnc.bench.rows import rows_named
from rnnc.bench.table import plain_table
from rnnc.codegen.shape import DIRECTIONS
from roofline_kernel import WITHOUT
from roofline_ncu import NcuError, counters_of

KERNEL = Path(__file__).with_name("roofline_kernel.py")
KERNELS = "rnnc_(forward|backward)"
SHOWN = ("SMs active %", "tensor pipe %", "issue slots %", "shared memory %", "L2 %", "DRAM %")


def main(
    rows: Annotated[str, typer.Option(help="Rows of `rnnc bench`.")] = "2,5,7",
    repeat: Annotated[int, typer.Option(help="Timed runs.", min=1)] = 15,
    ncu: Annotated[bool, typer.Option(help="Read counters with ncu.")] = True,
    device: Annotated[str, typer.Option(help="cuda, or cpu to test this program.")] = "cuda",
    steps: Annotated[int | None, typer.Option(help="Steps; the row's by default.")] = None,
    output: Annotated[Path, typer.Option(help="Output folder.")] = Path("benchmarks/results"),
) -> None:
    """Measure rows in all three ways, print tables, and write a JSON file."""
    if device == "cuda" and not torch.cuda.is_available():
        typer.echo("roofline: found no CUDA device; wanted: a GPU that torch can use", err=True)
        raise typer.Exit(1)
    numbers = [row.number for row in rows_named(rows)]
    request = {"rows": numbers, "repeat": repeat, "device": device, "steps": steps}
    found: dict[str, Any] = {
        kind: _child(request | {"without": kind, "profile": False})
        for kind in ("nothing", *WITHOUT)
    }
    counted = _counted(request, numbers) if ncu and device == "cuda" else {}
    command = f"python benchmarks/roofline.py --rows {rows}" + " --no-ncu" * (not ncu)
    record = Record(device, command, method=__doc__)
    record.into(output / f"roofline-{record.stem.removeprefix('cuda-')}.json")
    results: dict[str, Any] = {
        str(n): {
            **found["nothing"][str(n)],
            "without_us": {k: found[k][str(n)].get("us") for k in WITHOUT},
            "failures": {
                k: v[str(n)]["failure"] for k, v in found.items() if "failure" in v[str(n)]
            },
            "shares": shares(found, str(n)),
            "ncu": counted.get(str(n)),
        }
        for n in numbers
    }
    console = Console(highlight=False, width=200)
    console.print(shares_table(results))
    if counted.get("failure"):
        console.print(f"no counters: {counted['failure']}", markup=False)
    elif counted:
        console.print(_counters_table(results))
    for number, row in results.items():
        for kind, failure in row["failures"].items():
            console.print(f"row {number}, without {kind}: {failure}", markup=False)
    record.write(rows=results, ncu_failure=counted.get("failure"))
    console.print(f"wrote {record.paths[0]}")


def shares(found: dict[str, Any], number: str) -> dict[str, dict[str, float]]:
    """The share of each part in the time of a step; exchange is the rest."""
    times = {kind: rows[number].get("us") for kind, rows in found.items()}
    if not all(times.values()):
        return {}
    result = {}
    for direction in DIRECTIONS:
        whole = times["nothing"][direction]
        own = {k: max(1 - times[k][direction] / whole, 0.0) for k in WITHOUT}
        result[direction] = {"exchange": 1 - sum(own.values()), **own}
    return result


def _child(request: dict[str, Any]) -> dict[str, Any]:
    """The result of a separate process; a failure for every row without a result."""
    command = [sys.executable, str(KERNEL), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {str(n): {"failure": last[:300]} for n in request["rows"]}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _counted(request: dict[str, Any], numbers: list[int | None]) -> dict[str, Any]:
    """The counters of each row's kernels by direction, or why there are none."""
    asked = json.dumps(request | {"without": "nothing", "profile": True})
    try:
        kernels = counters_of([sys.executable, str(KERNEL), asked], KERNELS)
    except NcuError as error:
        return {"failure": str(error)}
    if len(kernels) != 2 * len(numbers):
        names = ", ".join(k["kernel"] for k in kernels)
        return {"failure": f"ncu saw {len(kernels)} kernels for {len(numbers)} rows: {names}"}
    return {
        str(n): dict(zip(DIRECTIONS, kernels[2 * i : 2 * i + 2], strict=True))
        for i, n in enumerate(numbers)
    }


def shares_table(rows: dict[str, Any]) -> Table:
    """The parts of a step by row and direction, and what warps wait for."""
    parts, words = ("exchange", *WITHOUT), ["row", "plan", "direction"]
    numbers = ["us per step", *(f"{part} %" for part in parts)]
    table = plain_table("measured by leaving out (cost model)", words, numbers)
    table.add_column("warps wait for (ncu)")
    for number, row in rows.items():
        for direction, shares in (row["shares"] or {}).items():
            model = row.get("model_ns", {}).get(direction, {})
            total = sum(model.values())
            cells = [
                f"{100 * shares[part]:.0f}"
                + (f" ({100 * model[part] / total:.0f})" if total else "")
                for part in parts
            ]
            stalls = ((row.get("ncu") or {}).get(direction) or {}).get("stalls", {})
            waits = ", ".join(f"{k} {100 * v:.0f} %" for k, v in list(stalls.items())[:3])
            took = f"{row['us'][direction]:.2f}"
            table.add_row(number, row.get("variant", ""), direction, took, *cells, waits or "-")
    return table


def _counters_table(rows: dict[str, Any]) -> Table:
    columns = ("row", "direction", "ms", "GHz", *SHOWN)
    table = plain_table("Counters of one launch, by ncu", columns)
    for number, row in rows.items():
        for direction in DIRECTIONS:
            kernel = (row["ncu"] or {}).get(direction)
            if kernel is None:
                continue
            counters = kernel["counters"]
            cells = [f"{counters[n]:.1f}" if n in counters else "-" for n in SHOWN]
            clock = counters.get("SM clock, cycles per s")
            table.add_row(
                *(number, direction, f"{counters.get('time ns', 0) / 1e6:.2f}"),
                f"{clock / 1e9:.2f}" if clock else "-",
                *cells,
            )
    return table


if __name__ == "__main__":
    typer.run(main)
