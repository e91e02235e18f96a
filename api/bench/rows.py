"""The rows of `rnnc bench`: sizes, what others took for them, and what we set out to reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..errors import RnncError

MEASURED_ON = "one NVIDIA H200, torch 2.11.0+cu130, 2026-11-20"
# At most so many steps are short enough for a loop of torch operations.
SHORT_STEPS = 32


class BenchError(RnncError):
    """A measurement that does not exist.

    Example:
        >>> from rnnc.bench.rows import BenchError, rows_named
        >>> try:
        ...     rows_named("17")
        ... except BenchError as error:
        ...     print(error)
        bench
          found:  row '17'
          wanted: all, or numbers from 1 to 16, with commas between them
          write:  --rows 1,2,3
    """

    def __init__(self, found: str, wanted: str, write: str) -> None:
        super().__init__("bench", found, wanted, write)


class Pair(NamedTuple):
    """Milliseconds of a forward in training, and of forward and backward."""

    forward: float
    forward_backward: float


@dataclass(frozen=True)
class Row:
    """The sizes of one comparison.

    Attributes:
        cell: the cell's name.
        heads: independent heads.
        head_dim: units of a head.
        batch: batch rows.
        steps: steps of a sequence.
        number: in the table of rows, or None for sizes of the caller's own.
        target: what rnnc is to reach with wx ready, where the row has its own sizes.
        flashrnn: what FlashRNN 1.0.5 took on the machine of `MEASURED_ON`.
        cudnn: what cuDNN took there in float16.
        note: what to know about those figures.

    Example:
        >>> from rnnc.bench.rows import rows_named
        >>> print(rows_named("2")[0])
        row 2: lstm, 12 x 64, batch 16, 1024 steps
    """

    cell: str
    heads: int
    head_dim: int
    batch: int = 16
    steps: int = 1024
    number: int | None = None
    target: Pair | None = None
    flashrnn: Pair | None = None
    cudnn: Pair | None = None
    note: str = ""

    @property
    def hidden(self) -> int:
        """Units of all heads."""
        return self.heads * self.head_dim

    def resized(self, **sizes: int | None) -> Row:
        """The row with other sizes; figures of other sizes say nothing about it, and go.

        Args:
            sizes: heads, head_dim, batch or steps; None for the row's own.

        Raises:
            BenchError: a size is smaller than 1.

        Example:
            >>> from rnnc.bench.rows import rows_named
            >>> print(rows_named("2")[0].resized(steps=32, batch=None))
            row 2: lstm, 12 x 64, batch 16, 32 steps
        """
        wanted = {name: size for name, size in sizes.items() if size is not None}
        for name, size in wanted.items():
            if size < 1:
                option = name.replace("_", "-")
                raise BenchError(f"{name} {size}", "at least 1", f"--{option} 1")
        if all(getattr(self, name) == size for name, size in wanted.items()):
            return self
        changed: Row = replace(self, **wanted, target=None, flashrnn=None, cudnn=None, note="")  # type: ignore[arg-type]
        return changed

    def __str__(self) -> str:
        start = f"row {self.number}: " if self.number else ""
        sizes = f"{self.heads} x {self.head_dim}, batch {self.batch}, {self.steps} steps"
        return f"{start}{self.cell}, {sizes}"


def _row(
    number: int,
    sizes: tuple[str, int, int, int],
    flashrnn: tuple[float, float],
    target: tuple[float, float],
    cudnn: tuple[float, float] | None = None,
    note: str = "",
) -> Row:
    cell, heads, dim, batch = sizes
    return Row(
        *(cell, heads, dim, batch),
        number=number,
        target=Pair(*target),
        flashrnn=Pair(*flashrnn),
        cudnn=Pair(*cudnn) if cudnn else None,
        note=note,
    )


ROWS: dict[int, Row] = {
    row.number: row
    for row in (
        _row(1, ("lstm", 48, 16, 16), (3.55, 7.67), (0.35, 1.0)),
        _row(
            *(2, ("lstm", 12, 64, 16), (2.94, 7.86), (0.45, 1.3), (1.29, 2.95)),
            "cuDNN: one head of 64 only; FlashRNN's Triton forward: 1.98",
        ),
        _row(3, ("lstm", 12, 64, 128), (9.90, 33.5), (0.60, 2.0)),
        _row(
            *(4, ("lstm", 6, 128, 16), (3.05, 8.25), (0.55, 1.6), None),
            "target of one block a head: 1.0 / 2.8",
        ),
        _row(
            *(5, ("lstm", 3, 256, 16), (3.61, 9.60), (0.70, 2.0), (2.09, 5.94)),
            "cuDNN: one head of 256 only",
        ),
        _row(6, ("lstm", 1, 512, 16), (3.75, 10.9), (1.3, 3.6), (1.95, 5.94)),
        _row(7, ("lstm", 1, 768, 16), (5.00, 13.2), (1.5, 4.2), (2.27, 6.93)),
        _row(8, ("lstm", 1, 768, 2), (3.65, 9.34), (1.3, 3.5), (13.1, 30.8)),
        _row(
            *(9, ("lstm", 1, 768, 64), (9.90, 31.5), (3.5, 10), (7.72, 20.3)),
            "FlashRNN: alternating",
        ),
        _row(10, ("lstm", 1, 1024, 16), (6.60, 16.1), (1.7, 4.7), (2.32, 7.93)),
        _row(11, ("lstm", 1, 2048, 16), (23.4, 40.5), (6, 16), (13.7, 33.2)),
        _row(12, ("slstm", 12, 64, 16), (2.89, 8.00), (0.50, 1.5)),
        _row(13, ("slstm", 1, 768, 16), (4.79, 13.4), (1.6, 4.4)),
        _row(14, ("elman", 12, 64, 16), (2.95, 7.40), (0.30, 0.9)),
        _row(15, ("elman", 1, 768, 16), (3.56, 8.46), (1.2, 2.8), (4.16, 9.70)),
        _row(
            *(16, ("gru", 1, 768, 16), (11.2, 22.8), (1.5, 4.2), (11.4, 26.4)),
            "FlashRNN: alternating, it has no fused GRU",
        ),
    )
    if row.number
}


def rows_named(numbers: str) -> list[Row]:
    """The rows that a word of the command line means.

    Args:
        numbers: such as "1,2,3", "1-16", or "all".

    Raises:
        BenchError: there is no such row.

    Example:
        >>> from rnnc.bench.rows import rows_named
        >>> [row.cell for row in rows_named("2,12-14")]
        ['lstm', 'slstm', 'slstm', 'elman']
    """
    if numbers == "all":
        return list(ROWS.values())
    found = []
    for word in (w.strip() for w in numbers.split(",")):
        ends = [int(end) if end.isdecimal() else 0 for end in word.split("-")]
        wanted = range(ends[0], ends[-1] + 1)
        if len(ends) > 2 or not wanted or not all(number in ROWS for number in wanted):
            raise BenchError(
                f"row {word!r}",
                f"all, or numbers from 1 to {max(ROWS)}, with commas between them",
                "--rows 1,2,3",
            )
        found += [ROWS[number] for number in wanted]
    return found
