"""The rows of `rnnc bench`: the sizes that it measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..errors import RnncError

# A loop of torch operations takes part in rows of at most so many steps.
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
    """Milliseconds of a forward in training, and of a forward with its backward."""

    forward: float
    forward_backward: float


@dataclass(frozen=True)
class Row:
    """The sizes of one comparison.

    Attributes:
        cell: the cell's name.
        heads: independent heads.
        head_dim: units per head.
        batch: batch rows.
        steps: steps of a sequence.
        number: in the table of rows, or None for sizes of the caller's own.
        target: the time that rnnc shall reach with wx ready; this and the next three come from a
            file of anchors (`read_anchors`).
        flashrnn: the time of FlashRNN.
        cudnn: the time of cuDNN in float16.
        note: what to know about these times.

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
        """The row with other sizes, and without anchors, which hold for its own sizes only.

        Args:
            sizes: heads, head_dim, batch or steps; None keeps the row's own.

        Raises:
            BenchError: a size is smaller than 1.
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


_SIZES: tuple[tuple[str, int, int, int], ...] = (  # cell, heads, head dim, batch
    ("lstm", 48, 16, 16),
    ("lstm", 12, 64, 16),
    ("lstm", 12, 64, 128),
    ("lstm", 6, 128, 16),
    ("lstm", 3, 256, 16),
    ("lstm", 1, 512, 16),
    ("lstm", 1, 768, 16),
    ("lstm", 1, 768, 2),
    ("lstm", 1, 768, 64),
    ("lstm", 1, 1024, 16),
    ("lstm", 1, 2048, 16),
    ("slstm", 12, 64, 16),
    ("slstm", 1, 768, 16),
    ("elman", 12, 64, 16),
    ("elman", 1, 768, 16),
    ("gru", 1, 768, 16),
)
ROWS: dict[int, Row] = {
    number: Row(*sizes, number=number) for number, sizes in enumerate(_SIZES, start=1)
}


def rows_named(numbers: str) -> list[Row]:
    """The rows in a list on the command line.

    Raises:
        BenchError: there is no such row.
    """
    if numbers == "all":
        return list(ROWS.values())
    return [ROWS[number] for number in numbers_named(numbers, max(ROWS), "row", "--rows 1,2,3")]


def numbers_named(words: str, most: int, what: str, write: str) -> list[int]:
    """The numbers in a list on the command line.

    Raises:
        BenchError: a word is no number from 1 to `most`, and no range of them.
    """
    found: list[int] = []
    for word in (w.strip() for w in words.split(",")):
        ends = [int(end) if end.isdecimal() else 0 for end in word.split("-")]
        wanted = range(ends[0], ends[-1] + 1)
        if len(ends) > 2 or not wanted or wanted[0] < 1 or wanted[-1] > most:
            raise BenchError(
                f"{what} {word!r}",
                f"all, or numbers from 1 to {most}, with commas between them",
                write,
            )
        found += wanted
    return found
