"""Times layers that run at the same time on a GPU against layers one after the other.

    python benchmarks/stacks.py [--json table.json]

LSTM, B 16, T 1024, bfloat16. Both orders take turns in one process. GPU time is that of calls that
are queued back to back, wall-clock time that of a call from an idle GPU, in ms: inference, and
forward + backward of the whole module.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import rnnc
import torch
import typer
from rnnc.bench.report import Record
from rnnc.bench.timing import queued_launches, wall

SIZES = ((4, 12, 64), (8, 12, 64), (4, 1, 512), (4, 3, 256))
BATCH, STEPS, TURNS = 16, 1024, 3
ORDERS, KINDS = ("sequential", "auto"), ("inference", "training")


def from_idle(run: Callable[[], object], count: int = 15) -> float:
    """Return the median time of a call from an idle GPU, in ms."""
    return statistics.median(wall(run, "cuda") for _ in range(count))


def calls(layers: int, heads: int, dim: int, order: str) -> list[Callable[[], object]]:
    """Return a forward without gradients, and a forward with its backward."""
    rnn: Any = rnnc.RNN("lstm", heads * dim, heads * dim, heads=heads, num_layers=layers)
    rnn = rnn.to("cuda", torch.bfloat16)
    rnn.layers = order
    x = torch.randn(STEPS, BATCH, heads * dim, device="cuda", dtype=torch.bfloat16)
    seed = torch.randn_like(x)

    def forward() -> None:
        with torch.no_grad():
            rnn(x)

    def training() -> None:
        rnn.zero_grad()
        rnn(x)[0].backward(seed)

    return [forward, training]


def main(
    output: Annotated[Path | None, typer.Option("--json", help="A file for the table.")] = None,
) -> None:
    """Measure, and print a table."""
    record, rows = Record("cuda", "python benchmarks/stacks.py"), []
    record.into(output)
    for sizes in SIZES:
        runs = {
            (order, kind): run
            for order in ORDERS
            for kind, run in zip(KINDS, calls(*sizes, order), strict=True)
        }
        for run in runs.values():
            for _ in range(6):
                run()
        times: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in runs}
        for _ in range(TURNS):
            for key, run in runs.items():
                times[key].append((queued_launches(run, 0.15), from_idle(run)))
        for order in ORDERS:
            figures = [
                statistics.median(turns)
                for kind in KINDS
                for turns in zip(*times[order, kind], strict=True)
            ]
            rows.append([*sizes, order, *figures])
            gpu, idle = figures[::2], figures[1::2]
            print(
                f"{sizes[0]} of {sizes[1]} x {sizes[2]}, {order:10}: "
                f"GPU {gpu[0]:.3f} / {gpu[1]:.3f}, wall-clock {idle[0]:.3f} / {idle[1]:.3f}",
                flush=True,
            )
    record.write(rows=rows)


if __name__ == "__main__":
    typer.run(main)
