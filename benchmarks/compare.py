"""Compares two installed versions of rnnc on the rows of `rnnc bench`, on one GPU.

    pip install --no-deps --target build/old OLD_CHECKOUT
    pip install --no-deps --target build/new .
    python benchmarks/compare.py --old build/old --new build/new --output benchmarks/results

Each version runs in its own process. The two processes measure each row alternately, so that both
see the same state of the GPU. A figure is the median GPU time of a call behind queued work, with
ready inputs, in bfloat16 and with `variant="auto"`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import IO, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

RUNS = 8


def worker() -> None:
    """Answer requests on standard input: a row's number, or "free"."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output goes to the error stream

    import rnnc
    from rnnc.bench.contenders.choice import contenders_for
    from rnnc.bench.inputs import DTYPES, Call, Inputs
    from rnnc.bench.precompile import compile_ahead
    from rnnc.bench.rows import ROWS
    from rnnc.bench.timing import free, timed, warm_up
    from rnnc.runtime.cuda.driver.device import device_limits

    def call_of(number: int, dtype: str) -> Call:
        row = ROWS[number]
        inputs = Inputs(cell := rnnc.cells.get(row.cell), row, dtype, "cuda")
        inputs.draw_all()
        found = contenders_for(row, cell, "cuda", [dtype], ["scan"])
        return next(c for c in found if c.variant == "auto").prepare(inputs)

    calls: dict[int, Call] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "compile":
            assert set(request["dtypes"]) <= set(DTYPES)
            rows = [(ROWS[n], rnnc.cells.get(ROWS[n].cell)) for n in request["rows"]]
            answer: Any = compile_ahead(rows, request["dtypes"], device_limits(0), ["auto"])
        elif request["do"] == "free":
            calls.clear()
            free("cuda")
            answer = None
        else:
            number = request["row"]
            if number not in calls:
                calls[number] = call_of(number, request["dtype"])
                warm_up(calls[number].step, "cuda")
            call = calls[number]
            answer = {}
            for phase, run in (("forward", call.run), ("forward_backward", call.step)):
                ahead = warm_up(run, "cuda", 2).ahead
                answer[phase] = [timed(run, "cuda", ahead)[0] for _ in range(RUNS)]
        print(json.dumps(answer), file=answers, flush=True)


class Version:
    """A process in which one version of rnnc runs."""

    def __init__(self, folder: Path) -> None:
        paths = [str(folder.resolve()), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)},
        )

    def send(self, **request: Any) -> None:
        """Send a request; `receive` waits for its answer."""
        stdin = cast(IO[str], self._process.stdin)
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()

    def receive(self) -> Any:
        """The answer to the oldest request."""
        line = cast(IO[str], self._process.stdout).readline()
        if not line:
            raise SystemExit(f"a process ended early, with code {self._process.wait()}")
        return json.loads(line)

    def ask(self, **request: Any) -> Any:
        """The answer to a request."""
        self.send(**request)
        return self.receive()


def main(
    old: Annotated[Path, typer.Option(help="The folder in which the old version is installed.")],
    new: Annotated[Path, typer.Option(help="The folder in which the new version is installed.")],
    rows: Annotated[str, typer.Option(help='Rows, such as "1,2,5-7" or "all".')] = "all",
    dtype: Annotated[str, typer.Option(help="A dtype of `rnnc bench`.")] = "bfloat16",
    rounds: Annotated[int, typer.Option(help="Rounds per row; each runs both versions.")] = 3,
    output: Annotated[Path | None, typer.Option(help="The folder for the JSON file.")] = None,
) -> None:
    """Compare the times of two installed versions of rnnc."""
    import torch

    sys.path.insert(0, str(new))  # the record is the new version's
    from rnnc.bench.report import Record
    from rnnc.bench.rows import rows_named

    numbers = [row.number for row in rows_named(rows)]
    record = Record("cuda", f"python {' '.join(sys.argv)}", dtype=dtype, unit="ms of GPU time")
    record.head |= {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
    stem = record.head["gpu"].removeprefix("NVIDIA ").split()[0].lower()
    record.into(output and output / f"compare-{stem}-{record.head['date']}.json")
    versions = {"old": Version(old), "new": Version(new)}
    for version in versions.values():
        version.send(do="compile", rows=numbers, dtypes=[dtype])
    for version in versions.values():
        version.receive()
    console = Console(width=100)
    table = Table("row", "old forward", "new", "ratio", "old fwd+bwd", "new ", "ratio ")
    found: dict[int, Any] = {}
    for number in numbers:
        runs: dict[str, dict[str, list[float]]] = {name: {} for name in versions}
        for turn in range(rounds):
            order = list(versions) if turn % 2 == 0 else list(reversed(versions))
            for name in order:
                answer = versions[name].ask(do="time", row=number, dtype=dtype)
                for phase, times in answer.items():
                    runs[name].setdefault(phase, []).extend(times)
        for version in versions.values():
            version.ask(do="free")
        found[number] = {
            name: {phase: statistics.median(times) for phase, times in phases.items()}
            for name, phases in runs.items()
        }
        cells = [str(number)]
        for phase in ("forward", "forward_backward"):
            before, after = (found[number][name][phase] for name in ("old", "new"))
            cells += [f"{before:.3f}", f"{after:.3f}", f"{after / before:.3f}"]
        table.add_row(*cells)
        record.write(rows=found)
    console.print(table)


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker()
    else:
        typer.run(main)
