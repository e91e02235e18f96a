"""Times to compare a row of `rnnc bench` with: targets, and other libraries' times from a file.

The project's own file is `benchmarks/anchors.json` in its repository; no package contains it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from .rows import BenchError, Pair, Row


class RowTimes(BaseModel):
    """The times of a row, as the fields of `Row` of the same names."""

    target: Pair | None = None
    flashrnn: Pair | None = None
    cudnn: Pair | None = None
    note: str = ""


class Anchors(BaseModel):
    """The times of rows.

    Attributes:
        measured_on: the machine, the versions and the date of the other libraries' times.
        rows: by the row's number.
    """

    measured_on: str | None = None
    rows: dict[int, RowTimes]

    def at(self, row: Row) -> Row:
        """A row with its times, if the file has any."""
        return replace(row, **dict(self.rows.get(row.number or 0, ())))


def read_anchors(path: Path) -> Anchors:
    """The anchors of a file.

    Args:
        path: JSON such as `{"measured_on": "…", "rows": {"2": {"target": [0.45, 1.3]}}}`; a time is
            a pair of milliseconds: forward, and forward with backward.

    Raises:
        BenchError: the file cannot be read, or is not of this form.
    """
    try:
        return Anchors.model_validate_json(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(
            f"{path}, {type(error).__name__}: {error}",
            'a JSON file such as {"rows": {"2": {"target": [0.45, 1.3]}}}',
            "--anchors benchmarks/anchors.json",
        ) from error
