"""`rnnc.nn` against torch's modules on one thread of this CPU; `rnnc.convert` asks what it shows.

    python benchmarks/cpu_nn.py [--seconds 0.4] [--modules "LSTM to a quarter"] [--output FOLDER]

For each kind and size, in turns, the best processor time of some rounds. Ratios are rnnc's time
over torch's.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import rnnc
import torch
import typer
from rnnc.bench.report import Record
from rnnc.bench.smallest import smallest
from torch import nn

SIZES, CALLS = (16, 64, 128, 256, 512, 1024), ((1, 50), (16, 50))  # units; batch rows and steps


class Kind(StrEnum):
    """The modules that are compared."""

    LSTM = "LSTM"
    GRU = "GRU"
    RNN = "RNN"
    PROJECTED = "LSTM to a quarter"


def pair(kind: Kind, size: int) -> tuple[nn.Module, nn.Module]:
    """Make torch's module and ours."""
    if kind == Kind.PROJECTED:
        # Not of `rnnc.nn`, which runs torch's own forward where that is faster.
        sizes = {"input_size": size, "hidden_size": size, "proj_size": size // 4}
        return nn.LSTM(**sizes), rnnc.RNN("lstm", **sizes)
    theirs, ours = getattr(nn, kind)(size, size), getattr(rnnc.nn, kind)(size, size)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def main(
    seconds: Annotated[float, typer.Option(help="For each case.")] = 1.0,
    modules: Annotated[list[Kind] | None, typer.Option(help="Some of them.")] = None,
    output: Annotated[Path | None, typer.Option(help="A folder for the results.")] = None,
) -> None:
    """Measure, and print a line for each case."""
    torch.set_num_threads(1)  # whose time is measured; a backward runs on it too
    record, cases = Record("cpu", f"python {' '.join(sys.argv)}"), []
    record.into(output and output / f"cpu-nn-{record.head['date']}.json")
    grid = product(modules or Kind, SIZES, CALLS, (False, True))
    for kind, size, (batch, steps), train in grid:
        x = torch.randn(steps, batch, size)

        def run(module: nn.Module, x: torch.Tensor = x, train: bool = train) -> None:
            with torch.set_grad_enabled(train):
                y = module(x)[0]
                if train:
                    y.sum().backward()

        sides = zip(("torch_ms", "rnnc_ms"), pair(kind, size), strict=True)
        found = smallest({name: partial(run, module) for name, module in sides}, seconds)
        case = {"module": kind, "size": size, "B": batch, "T": steps, "train": train}
        cases.append(case | found)
        torchs, ours = found.values()
        print(*case.values(), f"{torchs:.3f} {ours:.3f} {ours / torchs:.2f}", flush=True)
        record.write(torch=torch.__version__, threads=torch.get_num_threads(), cases=cases)


if __name__ == "__main__":
    typer.run(main)
