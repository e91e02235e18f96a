"""A result file that several runs of `rnnc bench` add to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...bench.rows import BenchError


def earlier_results(path: Path | None, machine: dict[str, str], name: str) -> list[Any]:
    """Return what earlier runs on this machine's device wrote.

    Args:
        path: the file; None or a path without a file if there is none.
        machine: of this run.
        name: of the list of results in the file.

    Raises:
        BenchError: the file is no such file, or from another device.
    """
    if path is None or not path.exists():
        return []
    try:
        content = json.loads(path.read_text("utf-8"))
        found: list[Any] = content[name]
        device = content["machine"]["device"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(
            f"{path}: {type(error).__name__}: {error}",
            "a file that an earlier run wrote by the same options",
            "--json and the name of a new file",
        ) from error
    if device != machine["device"]:
        raise BenchError(
            f"{path}: results of {device}",
            f"results of {machine['device']}",
            "--json and the name of a new file",
        )
    return found


def known_machine(path: Path | None, machine: dict[str, str]) -> dict[str, str]:
    """The machine of all runs of a file: packages that one run had stay named in the next ones.

    Args:
        path: the file; None or a path without a file if there is none.
        machine: of this run.
    """
    if path is None or not path.exists():
        return machine
    earlier: dict[str, str] = json.loads(path.read_text("utf-8"))["machine"]
    return earlier | machine
