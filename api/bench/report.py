"""The JSON record of a run: the machine, the command and what was measured."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from .rows import BenchError

SCHEMA = 1
_PACKAGES = ("rnnc", "flashrnn", "triton", "cupy-cuda13x", "cupy-cuda12x")


class Record:
    """The file of a run, which is written after each case, so that nothing is lost.

    Attributes:
        head: its first fields.
        paths: where it is written.
        stem: the end of the file's name: device and date.

    Example:
        >>> from rnnc.bench.report import Record
        >>> list(Record("cpu", "rnnc bench").head)
        ['schema', 'date', 'command', 'machine']
    """

    def __init__(self, device: str, command: str, **more: Any) -> None:
        today, on = date.today().isoformat(), machine(device)
        self.head = {"schema": SCHEMA, "date": today, "command": command, "machine": on, **more}
        self.paths: list[Path] = []
        self.stem = file_stem(device, on["device"], today)

    @property
    def machine(self) -> dict[str, str]:
        """The machine and the versions."""
        on: dict[str, str] = self.head["machine"]
        return on

    @property
    def title(self) -> str:
        """The machine and the day, for a picture."""
        return f"{machine_line(self.machine)}, {self.head['date']}"

    def into(self, *paths: Path | None) -> None:
        """Write to these files; None stands for none."""
        self.paths = [path for path in paths if path]

    def write(self, **found: Any) -> None:
        """Write what was measured so far."""
        for path in self.paths:
            write_record({**self.head, **found}, path)


def machine(device: str) -> dict[str, str]:
    """The machine and the versions of a measurement."""
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
    """A machine in one line, its device first."""
    return ", ".join(f"{k} {v}" for k, v in on.items()).replace("device ", "", 1)


def _driver() -> str:
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(asked, capture_output=True, encoding="utf-8", timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.splitlines()[0].strip() if done.stdout else "unknown"


def file_stem(device: str, name: str, date: str) -> str:
    """The name of a run's files without suffix."""
    words = re.findall(r"[a-z0-9]+", name.lower().replace("nvidia", ""))
    return "-".join(["cuda", *words, date] if device == "cuda" else ["bench-cpu", date])


def write_record(content: dict[str, Any], path: Path) -> None:
    """Write a record. Whatever ends the process, the file is whole: the last one, or this one.

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
