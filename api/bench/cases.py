"""A case of `rnnc bench`: sizes, and who takes part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch

from .contenders.contender import Kind
from .rows import BenchError, Pair, Row, numbers_named

Named = TypeVar("Named")
Float32 = Literal["tf32", "ieee"]


@dataclass(frozen=True)
class Published:
    """A time that another project has published, for the sizes of a case.

    Attributes:
        by: the project.
        microseconds: of a step: of a forward, and of a forward and its backward.
        where: the device, and where it stands.
    """

    by: str
    microseconds: Pair
    where: str


@dataclass(frozen=True)
class RowCase:
    """A row with those who take part in it.

    Attributes:
        row: the cell and the sizes.
        dtypes: of the contenders; the first is that of those that compile for long.
        kinds: of contenders.
        peer_dtypes: further dtypes of torch's modules, and of those that have none of `dtypes`.
        float32: how torch's modules and rnnc round products of float32.
        variants: kinds of plans of the contenders "scan"; () for all.
        resets: the share of all steps at which a row of rnnc's starts anew.
        uncached: whether a run takes several sets of tensors in turn, which no cache holds.
        published: what nobody can measure here.

    Example:
        >>> from rnnc.bench.cases import RowCase
        >>> from rnnc.bench.rows import Row
        >>> print(RowCase(Row("mingru", 12, 64), ("float32",), ("auto",), resets=0.01))
        mingru, 12 x 64, batch 16, 1024 steps, 1 % resets, float32 (tf32)
    """

    row: Row
    dtypes: tuple[str, ...]
    kinds: tuple[Kind, ...]
    peer_dtypes: tuple[str, ...] = ()
    float32: Float32 = "tf32"
    variants: tuple[str, ...] = ()
    resets: float = 0.0
    uncached: bool = False
    published: Published | None = None

    def __str__(self) -> str:
        dtypes = [f"float32 ({self.float32})" if d == "float32" else d for d in self.dtypes]
        resets = [f"{100 * self.resets:g} % resets"] if self.resets else []
        return ", ".join([str(self.row), *resets, " and ".join(dtypes)])


def among(cases: tuple[Named, ...], words: str | None, example: str) -> tuple[Named, ...]:
    """Those of some cases, each with its name as `str`, that a word of the command line names.

    Args:
        cases: in the order of their numbers.
        words: a part of their names, or their numbers as in "1-30,45"; None for all.
        example: of a part of a name, for the error.

    Raises:
        BenchError: there is no such case.
    """
    if words is None:
        return cases
    if set(words) <= set("0123456789,- "):
        numbers = numbers_named(words, len(cases), "case", "--cases 1-3")
        return tuple(cases[number - 1] for number in numbers)
    start_of_a_word = re.compile(rf"(?<!\w){re.escape(words)}", re.IGNORECASE)
    found = tuple(case for case in cases if start_of_a_word.search(str(case)))
    if not found:
        wanted = "a part of a case's name, or numbers"
        raise BenchError(f"--cases {words!r}", wanted, f"--cases {example}")
    return found


@contextmanager
def float32_products(rounding: Float32) -> Iterator[None]:
    """Let torch's recurrent modules and rnnc, which follows them, round products so."""
    flags: Any = torch.backends.cudnn.rnn
    before = flags.fp32_precision
    if rounding == "ieee":
        flags.fp32_precision = "ieee"
    try:
        yield
    finally:
        if rounding == "ieee":
            flags.fp32_precision = before
