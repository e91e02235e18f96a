"""Times `rnnc.RNN` on the CPU against torch's modules over a grid of sizes.

    python benchmarks/cpu_users.py [--seconds 0.4] [--only "LSTM 256"] [--json table.json]
    python benchmarks/cpu_users.py --inference --threads 1
    python benchmarks/cpu_users.py --nn --threads 1

LSTM and GRU, hidden 64 to 512, B 1 to 128, T 1 to 64, training and inference, and single steps
against torch's cells. With `--inference` LSTM without gradients, hidden 32 to 1024, T 16 to 512.
With `--nn` what `rnnc.convert` makes of torch's modules, hidden 16 to 1024, T 50, and an LSTM whose
output is projected to a quarter by `rnnc.RNN`; `rnnc.convert` asks what it shows.

Both sides of a case run in turns in one process, in float32 with default flags. A figure is the
smallest time of a side. One thread is timed by its own clock.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Annotated

import torch
import typer
from rnnc.bench.modules.cases import Case, Mode, Module
from rnnc.bench.modules.contenders import Run, converted, ours, torchs
from rnnc.bench.report import Record
from rnnc.bench.timing import own_time
from rnnc.bench.turns import in_turns

HIDDEN, BATCH, STEPS = (64, 128, 256, 512), (1, 8, 32, 128), (1, 16, 64)
MODULES: tuple[Module, ...] = ("lstm", "gru")
MODES: tuple[Mode, ...] = ("training", "inference")
STEP_MODES: tuple[Mode, ...] = ("step", "step training")
INFERENCE_HIDDEN, INFERENCE_STEPS = (32, 64, 128, 256, 512, 1024), (16, 64, 512)
NN_HIDDEN, NN_BATCH, NN_STEPS = (16, 64, 128, 256, 512, 1024), (1, 16), 50
# Milliseconds for which a measurement repeats short calls: few, so that on a shared machine many
# measurements run undisturbed.
WINDOW = 0.3


def cases() -> Iterator[Case]:
    """All cases, in the order of the table."""
    for module, mode, hidden, batch, steps in product(MODULES, MODES, HIDDEN, BATCH, STEPS):
        yield Case(module, hidden, batch, steps, mode=mode)
    stepped: tuple[Module, ...] = (*MODULES, "elman")
    for module, mode, hidden, batch in product(stepped, STEP_MODES, (64, 256, 512), BATCH):
        yield Case(module, hidden, batch, mode=mode)


def inference_cases() -> Iterator[Case]:
    """Yield LSTMs without gradients."""
    for hidden, batch, steps in product(INFERENCE_HIDDEN, BATCH, INFERENCE_STEPS):
        yield Case("lstm", hidden, batch, steps, mode="inference")


def nn_cases() -> Iterator[Case]:
    """Yield what `rnnc.convert` takes, and LSTMs with a projection."""
    kinds: tuple[tuple[Module, int], ...] = (("lstm", 0), ("gru", 0), ("elman", 0), ("lstm", 4))
    for (module, part), hidden, batch, mode in product(kinds, NN_HIDDEN, NN_BATCH, MODES):
        projected = hidden // part if part else 0
        yield Case(module, hidden, batch, NN_STEPS, mode=mode, projected=projected)


def compare(case: Case, budget: float, nn: bool) -> tuple[float, float]:
    """The smallest milliseconds of rnnc and of torch, for which both together have some seconds."""
    # `rnnc.nn` runs torch's own forward of an LSTM with a projection where that is faster.
    make = converted if nn and not case.projected else ours
    clocks = {"ours": clock(make(case, "cpu")), "torch": clock(torchs(case, "cpu", torch.float32))}
    found = in_turns(clocks, 1_000_000, time.monotonic() + budget)
    return min(found["ours"]), min(found["torch"])


def clock(run: Run) -> Callable[[], float]:
    """Warm up, and return what times calls, behind one that fills the processor's caches."""
    run()
    count = max(1, int(WINDOW / max(own_time(run), 1e-3)))
    return lambda: (run(), own_time(run, count))[1]


def main(
    budget: Annotated[float, typer.Option("--seconds", help="Seconds per case.")] = 0.4,
    only: Annotated[str, typer.Option(help="Cases whose text contains this.")] = "",
    output: Annotated[Path | None, typer.Option("--json", help="A file for the table.")] = None,
    inference: Annotated[bool, typer.Option("--inference", help="LSTM without gradients.")] = False,
    nn: Annotated[bool, typer.Option("--nn", help="Converted modules of torch.")] = False,
    threads: Annotated[int, typer.Option(help="Threads of both sides.")] = 2,
) -> None:
    """Measure, and print a table."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    record = Record("cpu", f"python {' '.join(sys.argv)}")
    record.into(output)
    table: dict[str, tuple[float, float]] = {}
    for case in inference_cases() if inference else nn_cases() if nn else cases():
        if only not in str(case):
            continue
        mine, peer = table[str(case)] = compare(case, budget, nn)
        mark = "  over 1.1" if mine > 1.1 * peer else ""
        print(f"{case!s:48} {mine:9.3f} {peer:9.3f} {mine / peer:6.2f}{mark}", flush=True)
    ratios = {name: mine / peer for name, (mine, peer) in table.items()}
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst = max(ratios, key=ratios.__getitem__)
    print(f"{len(ratios)} cases, rnnc's time over torch's: geometric mean {mean:.2f}")
    print(f"worst {ratios[worst]:.2f} ({worst})")
    print(f"over 1.1: {sum(ratio > 1.1 for ratio in ratios.values())}")
    record.write(milliseconds=table)


if __name__ == "__main__":
    typer.run(main)
