"""Times to compare a row of `rnnc bench` with: targets, and other libraries' times from a file.

The project's own file is `benchmarks/anchors.json` in its repository; no package contains it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .rows import BenchError, Pair, Row


@dataclass(frozen=True)
class Anchors:
    """The times of rows.

    Attributes:
        measured_on: the machine, the versions and the date of the other libraries' times.
        rows: by the row's number: "target", "flashrnn", "cudnn" and "note", where there are any.
    """

    measured_on: str | None = None
    rows: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def at(self, row: Row) -> Row:
        """A row with its times, if the file has any."""
        return replace(row, **self.rows.get(row.number or 0, {}))


def read_anchors(path: Path) -> Anchors:
    """The anchors of a file.

    Args:
        path: JSON such as `{"measured_on": "…", "rows": {"2": {"target": [0.45, 1.3]}}}`; a time is
            a pair of milliseconds: forward, and forward with backward.

    Raises:
        BenchError: the file cannot be read, or is not of this form.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        rows = {int(number): _times(row) for number, row in content["rows"].items()}
        return Anchors(content.get("measured_on"), rows)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BenchError(
            f"{path}, {type(error).__name__}: {error}",
            'a JSON file such as {"rows": {"2": {"target": [0.45, 1.3]}}}',
            "--anchors benchmarks/anchors.json",
        ) from error


def _times(row: Mapping[str, Any]) -> dict[str, Any]:
    known = (name for name in ("target", "flashrnn", "cudnn") if name in row)
    times = {name: Pair(*map(float, row[name])) for name in known}
    return {**times, "note": str(row.get("note", ""))}
