"""CPU training steps side by side: rnnc, nn.LSTM, the eager loop, torch.compile of the loop.

    python benchmarks/cpu.py [--hidden 64 --hidden 256] [--rounds 15] [--output benchmarks/results]

Every contender does the same work: input projection, recurrence, and gradients of the input and of
all weights. All run in float32 with two threads, T = 256 and B = 16; the compiled loop has T = 32,
because its compile time grows with T. Contenders run alternately, so that load on the machine
affects all of them. A figure is the median.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import rnnc
import torch
import typer
from rich.console import Console
from rich.table import Table
from rnnc import Constant, Gate, State, constant, gate, sigmoid, tanh
from rnnc.bench.report import Record
from rnnc.bench.timing import wall
from rnnc.bench.turns import in_turns
from rnnc.cli.progress import stages
from torch import Tensor, nn

# torch starts with an empty cache, so that the compile time is that of a first compilation.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()

STEPS, SHORT_STEPS, BATCH, THREADS = 256, 32, 16, 2


@rnnc.cell
def novel(
    f: Gate, z: Gate, h: State, c: State, *, o: Gate = gate(source="c"), a: Constant = constant(0.5)
):
    """A cell without a hand-written kernel: two leaky states that feed each other."""
    c = sigmoid(f) * c + (1 - sigmoid(f)) * tanh(z)
    h = a * h + (1 - a) * sigmoid(o) * tanh(c)
    return h, c


class EagerLoop(nn.Module):
    """An LSTM of torch operations, one step at a time."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, 4 * size)
        self.recurrent = nn.Linear(size, 4 * size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Run over (T, B, size)."""
        projected = self.inner(x)
        h = c = x.new_zeros(x.shape[1], x.shape[2])
        outputs = []
        for step in projected:
            i, f, z, o = (step + self.recurrent(h)).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs), None


def training_step(module: nn.Module, steps: int, hidden: int) -> Callable[[], None]:
    """A function that runs forward and backward of one batch, with all gradients."""
    x = torch.randn(steps, BATCH, hidden, requires_grad=True)
    seed = torch.randn(steps, BATCH, hidden)

    def run() -> None:
        module.zero_grad()
        x.grad = None
        module(x)[0].backward(seed)

    return run


def measure(contenders: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median time of each contender in milliseconds; they run alternately."""

    def clock(run: Callable[[], None]) -> float:
        run()  # fills the caches, which the previous contender used
        return wall(run, "cpu")

    for run in contenders.values():
        run()
        run()
    clocks = {name: partial(clock, run) for name, run in contenders.items()}
    return {name: statistics.median(times) for name, times in in_turns(clocks, rounds).items()}


def start_times() -> dict[str, float]:
    """Seconds from a new cell to its loaded kernels: cold, and from the disk cache.

    Each is the median of five new processes, after `import rnnc`.
    """
    program = (
        "import time, rnnc\n"
        "from rnnc.codegen.cpu.plan import CpuPlan\n"
        "from rnnc.runtime.cpu.compile import cpu_library\n"
        "cell = rnnc.cells.lstm\n"
        "start = time.perf_counter()\n"
        "cpu_library(cell, CpuPlan())\n"
        "print(time.perf_counter() - start)"
    )
    found: dict[str, list[float]] = {"cold": [], "cached": []}
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            for times in found.values():
                result = subprocess.run(
                    [sys.executable, "-c", program],
                    env={"RNNC_CACHE_DIR": folder, "PATH": "/usr/bin:/bin"},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                times.append(float(result.stdout))
    return {kind: statistics.median(values) for kind, values in found.items()}


def compiler() -> str:
    """The first line that the compiler says of itself."""
    said = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True)
    return said.stdout.splitlines()[0]


def main(
    hidden: Annotated[list[int] | None, typer.Option(help="Hidden sizes.")] = None,
    rounds: Annotated[int, typer.Option(help="Measurements per contender.")] = 15,
    output: Annotated[Path | None, typer.Option(help="The folder for a JSON file.")] = None,
) -> None:
    """Measure, print a table, and write a JSON file if --output is given."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    results: dict[str, dict[str, float]] = {}
    for size in stages(hidden or [64, 256], "measuring hidden size"):
        long = {"nn.LSTM": nn.LSTM(size, size), "eager loop": EagerLoop(size)}
        cells = [rnnc.cells.get(n) for n in ("lstm", "slstm", "gru", "elman")]
        long |= {f"rnnc {c.name}": rnnc.RNN(c, size, size) for c in (*cells, novel)}
        quick = {n: training_step(m, STEPS, size) for n, m in long.items() if n != "eager loop"}
        slow = {"eager loop": training_step(long["eager loop"], STEPS, size)}
        found = measure(quick, rounds) | measure(slow, max(rounds // 5, 3))

        torch._dynamo.reset()
        compiled = torch.compile(EagerLoop(size))
        start = time.perf_counter()
        training_step(compiled, SHORT_STEPS, size)()
        seconds = time.perf_counter() - start
        short = {
            "compiled loop, T = 32": compiled,
            "rnnc lstm, T = 32": long["rnnc lstm"],
            "nn.LSTM, T = 32": long["nn.LSTM"],
        }
        found |= measure({n: training_step(m, SHORT_STEPS, size) for n, m in short.items()}, rounds)
        found["compiled loop, seconds to compile"] = seconds
        results[f"hidden {size}"] = found
    starts = start_times()

    console = Console()
    table = Table("forward + backward, ms", *results, title=f"T = {STEPS}, B = {BATCH}, float32")
    for name in next(iter(results.values())):
        table.add_row(name, *(f"{found[name]:.2f}" for found in results.values()))
    console.print(table)
    console.print(f"start: {starts['cold']:.2f} s cold, {1e3 * starts['cached']:.1f} ms cached")
    record = Record("cpu", f"python {' '.join(sys.argv)}")
    processor = f"{record.machine['device'].rpartition(', ')[0]}, {os.cpu_count()} cores"
    own = {"processor": processor, "compiler": compiler(), "threads": str(THREADS)}
    record.head["machine"] |= own
    console.print(record.machine)
    record.into(output and output / f"cpu-{record.head['date']}.json")
    record.write(milliseconds=results, start_seconds=starts)
    for path in record.paths:
        console.print(f"wrote {path}")


if __name__ == "__main__":
    typer.run(main)
