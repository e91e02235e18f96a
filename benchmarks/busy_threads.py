"""Times calls on a GPU beside Python threads that compute, against nn.LSTM, and what threads count.

    python benchmarks/busy_threads.py [--threads 0,1,2,4] [--json table.json]

LSTM of 512 units, B 32, T 256, bfloat16. A row is a training step, `zero_grad`, forward, `sum`,
backward and `synchronize`: wall-clock time in ms, the median of turns in one process. "other
lengths" are steps of a length each, which are not replayed. The last rows are loops of calls that
fill the queue, without gradients, T 4096: how often the threads go round in a second, and calls.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import rnnc
import torch
import typer
from rnnc.bench.report import Record
from rnnc.bench.timing import wall
from torch import Tensor, nn

HIDDEN, BATCH, STEPS, LONG = 512, 32, 256, 4096
TURNS, CALLS = 3, 3
SECONDS = 2.0  # of a loop that fills the queue
APART = 0.05  # seconds between two sides: rnnc's short turns of threads have ended by then


class Counting:
    """Threads that add up numbers in Python.

    Attributes:
        count: how often they have gone round.
    """

    def __init__(self, threads: int) -> None:
        self.count, self._over = 0, False
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def _run(self) -> None:
        while not self._over:
            total = 0
            for number in range(1000):
                total += number
            self.count += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the threads."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over = True
            for thread in self._threads:
                thread.join()


def pair(layers: int) -> tuple[rnnc.RNN, nn.LSTM]:
    """Return rnnc's module and torch's."""
    sizes = HIDDEN, HIDDEN, layers
    ours = rnnc.RNN("lstm", *sizes[:2], num_layers=layers).to("cuda", torch.bfloat16)
    return ours, nn.LSTM(*sizes).to("cuda", torch.bfloat16)


def drawn(steps: int) -> Tensor:
    """Return an input."""
    return torch.randn(steps, BATCH, HIDDEN, device="cuda", dtype=torch.bfloat16)


def train(module: nn.Module, x: Tensor) -> float:
    """Return the milliseconds of a training step without an optimiser."""

    def run() -> None:
        module.zero_grad()
        module(x)[0].sum().backward()

    return wall(run, "cuda")


def step_times(layers: int, threads: int, lengths: list[int]) -> list[float]:
    """Return the median times of both modules, in ms."""
    modules, inputs = pair(layers), [drawn(steps) for steps in lengths]
    for module in modules:
        for x in [*inputs, *inputs[:1] * 4]:  # what is compiled, loaded or recorded
            train(module, x)
    if lengths[0] != lengths[-1]:
        inputs = [drawn(steps - len(lengths)) for steps in lengths]
    times: list[list[float]] = [[], []]
    with Counting(threads).running():
        for turn in range(TURNS):
            for module, found in zip(modules, times, strict=True):
                time.sleep(APART)
                found += [train(module, x) for x in inputs[turn * CALLS : (turn + 1) * CALLS]]
    return [statistics.median(found) for found in times]


def counts(threads: int) -> list[float]:
    """Return the rounds of the threads and the calls per second, beside each module."""
    x, found = drawn(LONG), []
    for module in pair(1):
        counting, calls = Counting(threads), 0
        with torch.no_grad(), counting.running():
            for _ in range(4):
                module(x)
            torch.cuda.synchronize()
            begin, before = time.perf_counter(), counting.count
            while time.perf_counter() - begin < SECONDS:
                module(x)
                calls += 1
            passed = time.perf_counter() - begin
            found += [(counting.count - before) / passed, calls / passed]
        torch.cuda.synchronize()
    return found


def main(
    threads: Annotated[str, typer.Option(help="Numbers of threads.")] = "0,1,2,4",
    output: Annotated[Path | None, typer.Option("--json", help="A file for the table.")] = None,
) -> None:
    """Measure, and print a table."""
    record = Record("cuda", f"python benchmarks/busy_threads.py --threads {threads}")
    record.into(output)
    rows: list[list[object]] = []
    print(f"{'threads':>7} {'layers':>6} {'lengths':>8} {'rnnc':>8} {'nn.LSTM':>8}")
    for layers in (1, 4):
        for kind in ("equal", "other"):
            lengths = [STEPS - number * (kind == "other") for number in range(TURNS * CALLS)]
            for count in map(int, threads.split(",")):
                own, other = step_times(layers, count, lengths)
                rows.append([count, layers, kind, own, other])
                print(f"{count:7} {layers:6} {kind:>8} {own:8.2f} {other:8.2f}", flush=True)
    loops: list[list[float]] = []
    for count in filter(None, map(int, threads.split(","))):
        loops.append([count, *counts(count)])
        print(f"{count} threads go round {loops[-1][1]:.0f} times per second beside", end=" ")
        print(f"{loops[-1][2]:.0f} calls, {loops[-1][3]:.0f} beside {loops[-1][4]:.0f} of nn.LSTM")
    record.write(steps=rows, loops=loops)


if __name__ == "__main__":
    typer.run(main)
