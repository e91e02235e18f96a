"""The JSON record of `rnnc bench`, and the figures that are derived from its times."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from .anchors import Anchors
from .contenders.contender import Contender
from .measure import PHASES, Comparison, Phase, Result, Settings
from .rows import BenchError
from .timing import WARM_UPS

SCHEMA = 1
_PACKAGES = ("rnnc", "flashrnn", "triton", "cupy-cuda13x", "cupy-cuda12x")


def best_peer(found: Comparison, contender: Contender, phase: Phase) -> float | None:
    """The fastest time of another library that does the same work, in any dtype.

    Args:
        found: the row's results.
        contender: the contender with whose terms the others must agree.
        phase: the phase.

    Returns:
        Milliseconds, or None if no peer was measured on these terms.
    """
    return min(_peer_times(found, contender, phase), default=None)


def _peer_times(found: Comparison, contender: Contender, phase: Phase) -> Iterator[float]:
    for result in found.results:
        other, figure = result.contender, result.figures.get(phase)
        if figure and not (other.ours or other.note) and other.terms == contender.terms:
            yield figure.median


def reached(found: Comparison, result: Result) -> dict[str, bool]:
    """Which of the row's targets a contender of rnnc meets; targets hold for wx ready.

    Args:
        found: the row.
        result: the result of one of its contenders.
    """
    target, contender = found.row.target, result.contender
    if target is None or not contender.ours or contender.terms != "wx ready":
        return {}
    goals: dict[Phase, float] = {
        "forward": target.forward,
        "forward_backward": target.forward_backward,
    }
    return {p: result.figures[p].median <= g for p, g in goals.items() if p in result.figures}


def nanoseconds(result: Result, steps: int) -> tuple[float | None, float | None]:
    """Nanoseconds per step: of the forward, and of the backward alone.

    Args:
        result: the result of a contender.
        steps: the row's steps.
    """
    forward, both = (result.figures.get(p) for p in PHASES[:2])
    return (
        1e6 * forward.median / steps if forward else None,
        1e6 * (both.median - forward.median) / steps if forward and both else None,
    )


def over_plan(result: Result, steps: int) -> dict[str, float] | None:
    """The measured time of a plan over its estimate, by direction; None if there is no plan.

    Args:
        result: the result of a contender.
        steps: the row's steps.
    """
    if result.planned is None:
        return None
    took = zip(("forward", "backward"), nanoseconds(result, steps), result.planned, strict=True)
    return {name: got / planned for name, got, planned in took if got and planned}


def machine(device: str) -> dict[str, str]:
    """The machine and the versions of a measurement.

    Args:
        device: "cpu" or "cuda".
    """
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if device == "cpu":
        info = Path("/proc/cpuinfo")
        names = re.findall(r"model name\s*: (.*)", info.read_text("utf-8")) if info.exists() else []
        name = names[0] if names else platform.processor()
        return {"device": f"{name}, {torch.get_num_threads()} threads", **versions}
    return {
        "device": torch.cuda.get_device_name(),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        "driver": _driver(),
        **versions,
    }


def machine_line(on: dict[str, str]) -> str:
    """A machine in one line, its device first.

    Args:
        on: what `machine` gave.
    """
    return ", ".join(f"{k} {v}" for k, v in on.items()).replace("device ", "", 1)


def _driver() -> str:
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(asked, capture_output=True, encoding="utf-8", timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.splitlines()[0].strip() if done.stdout else "unknown"


def record(
    found: Sequence[Comparison],
    settings: Settings,
    date: str,
    command: str,
    ahead: float | None = None,
    anchors: Anchors = Anchors(),  # noqa: B008 - frozen
) -> dict[str, Any]:
    """All measurements, as JSON writes them.

    Args:
        found: the rows.
        settings: how they were measured.
        date: the day of the run, as 2026-11-20.
        command: the command that measures them again.
        ahead: seconds of compiling all kernels before; None if they were not.
        anchors: the times that the rows are compared with.
    """
    clock = "CUDA events" if settings.device == "cuda" else "the host's clock"
    start = "behind queued work" if settings.queued else "from an idle device"
    return {
        "schema": SCHEMA,
        "date": date,
        "command": command,
        "machine": machine(settings.device),
        "method": f"{clock}; median of at most {settings.repeat} runs after {WARM_UPS}, contenders"
        f" in turns, each run {start}; milliseconds. Gradients of all inputs and weights."
        " Peers are compared on the same terms: wx ready, or with input GEMM",
        "compiled_ahead_seconds": ahead,
        "anchors_measured_on": anchors.measured_on,
        "rows": [_row(comparison) for comparison in found],
    }


def _row(found: Comparison) -> dict[str, Any]:
    return {
        **asdict(found.row),
        "contenders": [_contender(found, result) for result in found.results],
        "left_out": found.left_out,
        "first_result_seconds": found.first,
    }


def _contender(found: Comparison, result: Result) -> dict[str, Any]:
    contender = result.contender
    figures = {p: asdict(f) for p, f in result.figures.items()}
    peers = {p: best_peer(found, contender, p) for p in PHASES} if contender.ours else {}
    steps = found.row.steps
    return {
        "name": contender.name,
        "dtype": contender.dtype,
        "ours": contender.ours,
        "terms": contender.terms,
        "variant": contender.variant,
        "runs_as": result.runs_as or None,
        "note": contender.note,
        **{p: figures.get(p) for p in PHASES},
        "failures": result.failures,
        "first_call_seconds": result.first_seconds,
        "first_run_seconds": {p: w.first for p, w in result.warm_ups.items()},
        "peak_mib": result.peak_mib,
        "nanoseconds_a_step": dict(
            zip(("forward", "backward"), nanoseconds(result, steps), strict=True)
        ),
        "planned_nanoseconds_a_step": dict(
            zip(("forward", "backward"), result.planned, strict=True)
        )
        if result.planned
        else None,
        "measured_over_planned": over_plan(result, steps),
        "times_best_peer": {
            p: figures[p]["median"] / peer for p, peer in peers.items() if peer and p in figures
        },
        "target_reached": reached(found, result),
    }


def file_stem(device: str, name: str, date: str) -> str:
    """The name of a run's files without suffix.

    Args:
        device: "cpu" or "cuda".
        name: the GPU's name.
        date: the day of the run.

    Example:
        >>> from rnnc.bench.report import file_stem
        >>> file_stem("cuda", "NVIDIA H200", "2026-11-20")
        'cuda-h200-2026-11-20'
    """
    words = re.findall(r"[a-z0-9]+", name.lower().replace("nvidia", ""))
    return "-".join(["cuda", *words, date] if device == "cuda" else ["bench-cpu", date])


def write_record(content: dict[str, Any], path: Path) -> None:
    """Write a record. Whatever ends the process, the file is whole: the last one, or this one.

    Args:
        content: the record.
        path: the file; its folder is created.

    Raises:
        BenchError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
        new.replace(path)
    except OSError as error:
        raise BenchError(
            f"{type(error).__name__}: {error}",
            "a folder to write to",
            "--output benchmarks/results",
        ) from error
