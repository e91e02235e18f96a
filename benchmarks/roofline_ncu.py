"""Runs a process under Nsight Compute and reads the counters of its kernels."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PEAK = "avg.pct_of_peak_sustained"
# The values to show, each with its counters; their names differ between versions of the tool.
COUNTERS: dict[str, tuple[str, ...]] = {
    "time ns": ("gpu__time_duration.sum",),
    "SM clock, cycles per s": ("sm__cycles_elapsed.avg.per_second",),
    "SMs active %": (f"sm__cycles_active.{_PEAK}_elapsed",),
    "tensor pipe %": (
        f"sm__pipe_tensor_cycles_active.{_PEAK}_active",
        f"sm__pipe_tensor_op_hmma_cycles_active.{_PEAK}_active",
        f"sm__inst_executed_pipe_tensor.{_PEAK}_active",
    ),
    "issue slots %": (f"smsp__issue_active.{_PEAK}_active", f"sm__inst_issued.{_PEAK}_active"),
    "shared memory %": (
        f"l1tex__data_pipe_lsu_wavefronts_mem_shared.{_PEAK}_active",
        f"l1tex__data_pipe_lsu_wavefronts.{_PEAK}_active",
    ),
    "L2 %": (f"lts__throughput.{_PEAK}_elapsed", f"lts__t_sectors.{_PEAK}_elapsed"),
    "L2 sectors": ("lts__t_sectors.sum",),
    "DRAM %": (f"dram__throughput.{_PEAK}_elapsed", f"dram__bytes.{_PEAK}_elapsed"),
    "DRAM bytes": ("dram__bytes.sum",),
}
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(?!.*not_issued)(\w+)_per_issue_active")
# The stall reasons that every version has.
_STALLS = tuple(
    "barrier long_scoreboard short_scoreboard membar wait math_pipe_throttle mio_throttle"
    " no_instruction branch_resolve sleeping selected not_selected".split()
)


class NcuError(Exception):
    """The tool is missing or has no permission to count; the text says what to do."""


def counters_of(command: Sequence[str], kernels: str) -> list[dict[str, Any]]:
    """The counters of each kernel that a process launches between the profiler's start and stop.

    Returns:
        For each launch the kernel's name, its counters, and the share of each stall reason.

    Raises:
        NcuError: the tool is missing or failed.
    """
    ncu = find_ncu()
    names = _known(ncu)
    wanted = _chosen(names)
    for _ in range(4):
        text, said = _run(ncu, command, kernels, list(wanted))
        rows = _rows(text)
        if rows:
            return [_kernel(row, wanted) for row in rows]
        unknown = [m for m in wanted if re.search(rf"\b{re.escape(m.partition('.')[0])}\b", said)]
        if not unknown or "find metric" not in said:
            break
        wanted = {m: w for m, w in wanted.items() if m not in unknown}
    if "ERR_NVGPUCTRPERM" in said:
        raise NcuError(
            "ncu has no permission to read the counters (ERR_NVGPUCTRPERM): run it as root, or on"
            " a GPU whose driver allows it for every user"
        )
    lines = [line for line in said.splitlines() if "==" in line or "rror" in line]
    raise NcuError("ncu gave no counters: " + " | ".join(lines[-4:])[:600])


def find_ncu() -> str:
    """The path of ncu.

    Raises:
        NcuError: there is none on the PATH.
    """
    found = shutil.which("ncu")
    if found is None:
        raise NcuError(
            "found no ncu: install Nsight Compute, alone or with a CUDA toolkit, and put it on the"
            " PATH"
        )
    return found


def _known(ncu: str) -> set[str]:
    """The names of this GPU's counters; empty if the tool does not list them."""
    try:
        done = subprocess.run(
            [ncu, "--query-metrics"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return set(re.findall(r"^(\w+__\w+)", done.stdout, re.MULTILINE))


def _chosen(known: set[str]) -> dict[str, str]:
    """The counters to read, each with its name in `COUNTERS`; the first known spelling is taken."""
    found: dict[str, str] = {}
    for name, spellings in COUNTERS.items():
        there = [s for s in spellings if s.partition(".")[0] in known]
        found[(there or spellings)[0]] = name
    stalls = sorted(m[1] for m in map(_STALL.fullmatch, known) if m) or list(_STALLS)
    for reason in stalls:
        metric = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        found[metric] = f"stall {reason}"
    return found


def _run(ncu: str, command: Sequence[str], kernels: str, metrics: Sequence[str]) -> tuple[str, str]:
    """The table that the tool writes, and its whole output."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        options = [
            *("--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off"),
            *("--target-processes", "all", "--kernel-name", f"regex:{kernels}"),
            *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)),
            *("--metrics", ",".join(metrics)),
        ]
        try:
            done = subprocess.run(
                [ncu, *options, *command], capture_output=True, text=True, timeout=300, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise NcuError("ncu took longer than 300 s") from error
        text = log.read_text("utf-8") if log.exists() else ""
        return text, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def _rows(text: str) -> list[dict[str, str]]:
    """The lines of the table, without the line of units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    return [row for row in csv.DictReader(lines) if row.get("ID", "").strip()]


def _kernel(row: dict[str, str], wanted: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    stalls: dict[str, float] = {}
    for metric, name in wanted.items():
        try:
            value = float(row[metric].replace(",", ""))
        except (KeyError, ValueError):
            continue  # not counted on this GPU
        if name.startswith("stall "):
            stalls[name.removeprefix("stall ")] = value
        else:
            found[name] = value
    total = sum(stalls.values())
    shares = {name: value / total for name, value in stalls.items()} if total else {}
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return {"kernel": row.get("Kernel Name", ""), "counters": found, "stalls": dict(ordered)}
