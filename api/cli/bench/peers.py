"""What `rnnc bench --peers` does: it checks and times all peers, prints and writes it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import date
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import torch

from ...bench.peers.builds import Builds
from ...bench.peers.cases import PeerCase, peer_cases
from ...bench.peers.checks import check_all
from ...bench.peers.measure import measure_peers
from ...bench.peers.text import checks_table, peers_table
from ...bench.precompile import compile_ahead
from ...bench.report import file_stem, machine, machine_line, write_record
from ...cellspec.library import load
from ...runtime.cuda.driver.device import device_limits
from ..console import print_lines, print_table
from .merged import earlier_results
from .options import BenchOptions

_SCHEMA = 1
_PACKAGES = ("flash-linear-attention", "fla-core", "accelerated-scan", "torchrl", "haste_pytorch")
_BUILDING = 100.0  # seconds to wait for FlashRNN's kernels
_CHECKED = {"cuda": (256, 16, 1024), "cpu": (16, 3, 24)}  # units, batch rows, steps


def bench_peers(options: BenchOptions, device: str, command: str) -> None:
    """Check and time all peers, and print and write what was found.

    Args:
        options: the options of the command.
        device: "cpu" or "cuda".
        command: the command line, for the record.

    Raises:
        BenchError: there is no such case, or the file of results is of another device.
    """
    deadline = math.inf if options.limit is None else time.monotonic() + options.limit
    today, on = date.today().isoformat(), machine(device) | _versions()
    print_lines(machine_line(on))
    torch.manual_seed(0)
    folder, stem = options.output, f"comparison-{file_stem(device, on['device'], today)}"
    paths = [path for path in (options.json, folder and folder / f"{stem}.json") if path]
    found = earlier_results(options.json, on, "cases")
    checks = earlier_results(options.json, on, "checks")
    there = {case["name"] for case in found}
    cases = [case for case in peer_cases(device, options.cases) if str(case) not in there]
    ahead = options.ahead and device == "cuda"
    builds = Builds(cases if ahead and find_spec("flashrnn") else ())
    if not checks:
        new = list(check_all(device, *_CHECKED[device]))
        print_table(checks_table(new))
        checks = [check.record() for check in new]
    if ahead:
        print_lines(f"compiled in {_compile_all(cases):.1f} s")
        late = builds.wait(min(_BUILDING, (deadline - time.monotonic()) / 2))
        print_lines(f"{late} of FlashRNN's kernels were not built in time" if late else "built")
    for number, case in enumerate(cases):
        # The time that a case does not use is left to the others.
        now = time.monotonic()
        if now > deadline:
            left = len(cases) - number
            print_lines(f"{left} cases were cut by the time limit; the same command goes on")
            break
        until = now + max(_least(case), (deadline - now) / (len(cases) - number))
        until = min(until, deadline)
        found.append(measure_peers(case, device, options.repeat, until, built=ahead))
        print_lines(f"{case}: {time.monotonic() - now:.1f} s")
        for path in paths:  # after each case, so that nothing is lost if one takes too long
            write_record(_record(found, checks, options, today, on, command), path)
    print_table(peers_table(found))
    for path in paths:
        print_lines(f"wrote {path}")


def _least(case: PeerCase) -> float:
    """Seconds that a case may always take: some contenders compile at their first call."""
    slow = {"torchrl", "compile", "compile-step", "flashrnn", "fla"}
    return 15 + 60 * bool(slow & set(case.kinds))


def _compile_all(cases: Sequence[PeerCase]) -> float:
    """Compile rnnc's kernels of all cases on all cores; the seconds that it took."""
    limits, seconds = device_limits(torch.cuda.current_device()), 0.0
    for dtypes in {case.dtypes for case in cases}:
        rows = [(case.row, load(case.row.cell)) for case in cases if case.dtypes == dtypes]
        seconds += compile_ahead(rows, dtypes, limits, ["auto"])
    return seconds


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _record(
    found: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    options: BenchOptions,
    today: str,
    on: dict[str, str],
    command: str,
) -> dict[str, Any]:
    """All measurements, as JSON writes them."""
    clock = "CUDA events behind queued work" if on.get("cuda") else "the host's clock"
    return {
        "schema": _SCHEMA,
        "date": today,
        "command": command,
        "machine": on,
        "method": f"milliseconds: {clock}; median of at most {options.repeat} runs after 5,"
        " contenders in turns; gradients of all inputs and weights. Errors: norm of the difference"
        " from float64 over the norm",
        "checks": checks,
        "cases": found,
    }
