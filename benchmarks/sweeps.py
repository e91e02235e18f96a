"""Measures microseconds per step of an LSTM over head dim, heads, batch and length, on a GPU.

    python benchmarks/sweeps.py --output benchmarks/results [--sweep head-dim] [--limit 90]

Each point is the time of `variant="auto"` in bfloat16 with ready inputs: forward, and backward with
all gradients, as GPU time behind queued work. The file also has the cost model's estimate of the
plan (exchange + product + pointwise) and, for one head, the time of `nn.LSTM` in float16 (cuDNN),
which includes its input product.

The JSON file keeps each point with a digest of the package. A later call measures the points that
are missing or were measured with other code, as far as its time limit allows.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import rnnc
import torch
import typer
from cost_parts import named_parts
from rich.console import Console
from rnnc.bench.contenders.choice import contenders_for
from rnnc.bench.contenders.contender import Contender
from rnnc.bench.inputs import Inputs
from rnnc.bench.measure import chosen_plan
from rnnc.bench.precompile import compile_ahead
from rnnc.bench.report import Record
from rnnc.bench.rows import Row
from rnnc.bench.timing import free, median_time
from rnnc.codegen.shape import DIRECTIONS
from rnnc.runtime.cuda.driver.device import device_limits
from rnnc.runtime.store.digest import package_digest
from sweeps_plot import plot

UNITS = 768


class Sweep(NamedTuple):
    """A series of sizes (heads, head dim, batch, steps) in which one size varies."""

    title: str
    axis: str
    sizes: list[tuple[int, int, int, int]]


SWEEPS = {
    "head-dim": Sweep(
        "one head, batch 16, T = 1024",
        "head_dim",
        [
            (1, dim, 16, 1024)
            for dim in (16, 32, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048)
        ],
    ),
    "batch-768": Sweep("1 x 768, T = 1024", "batch", [(1, 768, 2**i, 1024) for i in range(9)]),
    "batch-64": Sweep("12 x 64, T = 1024", "batch", [(12, 64, 2**i, 1024) for i in range(9)]),
    "steps-768": Sweep("1 x 768, batch 16", "steps", [(1, 768, 16, 2**i) for i in range(7, 14)]),
    "steps-64": Sweep("12 x 64, batch 16", "steps", [(12, 64, 16, 2**i) for i in range(7, 14)]),
    "heads": Sweep(
        "768 units in heads, batch 16, T = 1024",
        "head_dim",
        [(UNITS // dim, dim, 16, 1024) for dim in (16, 32, 64, 96, 128, 192, 256, 384)],
    ),
}
CELL = rnnc.cells.lstm
SIZES = ("heads", "head_dim", "batch", "steps")
_METHOD = (
    "LSTM; CUDA events; median of {repeat} runs after 3, each behind queued work; microseconds per"
    " step. rnnc with ready inputs and all gradients; nn.LSTM with its input product. floor_ns: the"
    " cost model's estimate of the plan, by its parts"
)


def main(
    sweep: Annotated[list[str] | None, typer.Option(help="Some of " + ", ".join(SWEEPS))] = None,
    repeat: Annotated[int, typer.Option(help="Timed runs per point.", min=1)] = 7,
    limit: Annotated[float, typer.Option(help="Start no point after this many seconds.")] = 600,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure all points again.")] = False,
    device: Annotated[str, typer.Option(help="cuda, or cpu to test this program.")] = "cuda",
    output: Annotated[Path, typer.Option(help="Output folder.")] = Path("benchmarks/results"),
) -> None:
    """Measure the missing points within the time limit; write JSON and a picture."""
    began, console = time.monotonic(), Console(highlight=False, width=200)
    names = sweep or list(SWEEPS)
    for name in names:
        if name not in SWEEPS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(SWEEPS)}")
    torch.manual_seed(0)
    record = Record(device, "python benchmarks/sweeps.py", method=_METHOD.format(repeat=repeat))
    path = output / f"sweeps-{record.stem.removeprefix('cuda-')}.json"
    record.into(path)
    points, digest = {}, package_digest()[:16]
    if path.exists() and not fresh:
        content = json.loads(path.read_text("utf-8"))
        same_machine = content["machine"] == record.machine
        points = {k: p for k, p in content["points"].items() if same_machine}
        points = {k: p for k, p in points.items() if p["package"] == digest}
    wanted = [(n, sizes) for n in names for sizes in SWEEPS[n].sizes if _key(sizes) not in points]
    rows = [(_row(sizes), CELL) for sizes in dict.fromkeys(sizes for _, sizes in wanted)]
    if device == "cuda" and rows:
        limits = device_limits(torch.cuda.current_device())
        seconds = compile_ahead(rows, ["bfloat16"], limits, ["auto"])
        console.print(f"{len(rows)} points to measure; compiled in {seconds:.1f} s")
    sweeps = {
        name: {"title": s.title, "axis": s.axis, "points": [_key(p) for p in s.sizes]}
        for name, s in SWEEPS.items()
    }
    for name, sizes in wanted:
        if time.monotonic() - began > limit:
            console.print(f"time limit reached at {name}; call again for the rest")
            break
        if _key(sizes) not in points:
            points[_key(sizes)] = measure(_row(sizes), device, repeat) | {"package": digest}
            record.write(sweeps=sweeps, points=points)
        console.print(f"{name}: {_line(points[_key(sizes)])}")
    if points:
        record.write(sweeps=sweeps, points=points)
        picture = path.with_suffix(".png")
        plot(json.loads(path.read_text("utf-8")), picture)
        console.print(f"wrote {path} and {picture}")


def measure(row: Row, device: str, repeat: int) -> dict[str, Any]:
    """A point: its plan, its times, the cost model's estimate and cuDNN's times."""
    dtype, peer = ("bfloat16", "float16") if device == "cuda" else ("float32", "float32")
    found: dict[str, Any] = {name: getattr(row, name) for name in SIZES} | {"dtype": dtype}
    if device == "cuda":
        plan = chosen_plan(CELL, row, dtype)
        found |= {"variant": plan.variant, "plan": str(plan)}
        found["planned_ns"] = dict(zip(DIRECTIONS, plan.nanoseconds, strict=True))
        found["floor_ns"] = named_parts(plan)
    ours = contenders_for(row, CELL, device, [dtype], ["auto"])[0]
    found["ours_us"] = _microseconds(ours, row, device, repeat)
    if row.heads == 1:
        nn = contenders_for(row, CELL, device, [peer], ["nn"])[0]
        found["nn"] = {"dtype": peer, "us": _microseconds(nn, row, device, repeat)}
    return found


def _microseconds(
    contender: Contender, row: Row, device: str, repeat: int
) -> dict[str, float] | str:
    """Times per step of forward and forward + backward, or why there are none."""
    try:
        call = contender.prepare(Inputs(CELL, row, contender.dtype, device))
        runs = {"forward": call.run, "forward_backward": call.step}
        took = {phase: median_time(run, device, repeat) for phase, run in runs.items()}
        return {phase: 1e3 * each / row.steps for phase, each in took.items()}
    except (RuntimeError, rnnc.RnncError) as error:
        # For example out of memory; the other points are still measured.
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    finally:
        call = runs = None  # type: ignore[assignment]
        free(device)


def _row(sizes: tuple[int, int, int, int]) -> Row:
    return Row(CELL.name, *sizes)


def _key(sizes: tuple[int, int, int, int]) -> str:
    heads, dim, batch, steps = sizes
    return f"{heads} x {dim}, batch {batch}, {steps} steps"


def _line(point: dict[str, Any]) -> str:
    sizes = tuple(point[name] for name in SIZES)
    planned = point.get("planned_ns", {})
    words = [_key(sizes), point.get("variant", ""), _pair(point["ours_us"])]
    if planned:
        forward, backward = (planned[d] / 1e3 for d in DIRECTIONS)
        words.append(f"model {forward:.2f} / {forward + backward:.2f}")
    if "nn" in point:
        words.append(f"nn.LSTM {point['nn']['dtype']} {_pair(point['nn']['us'])}")
    return "  ".join(words)


def _pair(took: dict[str, float] | str) -> str:
    if isinstance(took, str):
        return took
    return f"{took['forward']:.2f} / {took['forward_backward']:.2f} us per step"


if __name__ == "__main__":
    typer.run(main)
