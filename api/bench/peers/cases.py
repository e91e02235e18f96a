"""The cases of `rnnc bench --peers`: sizes that vary one at a time, and who takes part in each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..contenders.kinds import Kind
from ..modules.cases import among
from ..rows import Pair, Row

UNITS = 768
STEPS = 1024
_BATCH = 16
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
class PeerCase:
    """A row with those who take part in it.

    Attributes:
        row: the cell and the sizes.
        dtypes: of the contenders; the first is that of those that compile for long.
        kinds: of contenders.
        peer_dtypes: further dtypes of torch's modules.
        float32: how torch's modules and rnnc round products of float32.
        published: what nobody can measure here.
    """

    row: Row
    dtypes: tuple[str, ...]
    kinds: tuple[Kind, ...]
    peer_dtypes: tuple[str, ...] = ()
    float32: Float32 = "tf32"
    published: Published | None = None

    def __str__(self) -> str:
        dtypes = [f"float32 ({self.float32})" if d == "float32" else d for d in self.dtypes]
        return f"{self.row}, {' and '.join(dtypes)}"


def peer_cases(device: str, words: str | None = None) -> tuple[PeerCase, ...]:
    """The cases of a device, the most asked for first.

    Args:
        device: "cpu" or "cuda".
        words: a part of their names, or their numbers as in "1-3"; None for all.

    Raises:
        BenchError: there is no such case.

    Example:
        >>> from rnnc.bench.peers.cases import peer_cases
        >>> sorted({case.row.head_dim for case in peer_cases("cuda") if case.row.hidden == 768})
        [16, 32, 64, 128, 256, 384, 768]
    """
    return among(_CPU if device == "cpu" else _CUDA, words, "gru")


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


def _half(heads: int, dim: int, *more: Kind, batch: int = _BATCH, steps: int = STEPS) -> PeerCase:
    """An LSTM in bfloat16, and torch's in float16 too, for which cuDNN has faster kernels."""
    kinds: tuple[Kind, ...] = ("auto", "module", "nn", "flashrnn", "attention", "fla")
    kinds += ("accelerated-scan", *(("fla-gla",) if dim == 64 else ()), *more)
    return PeerCase(Row("lstm", heads, dim, batch, steps), ("bfloat16",), kinds, ("float16",))


def _single(cell: str, dim: int, batch: int, steps: int) -> Iterator[PeerCase]:
    """A layer of one head as torch's users have it, and with exact products, as Haste has them."""
    row = Row(cell, 1, dim, batch, steps)
    # TorchRL's kernels for larger layers compile for minutes.
    own: tuple[Kind, ...] = ("torchrl",) if dim <= 128 else ()
    yield PeerCase(row, ("float32",), ("auto", "module", "nn", *own))
    yield PeerCase(row, ("float32",), ("auto", "module", "nn", "haste"), float32="ieee")


def _without_product(heads: int, dim: int, batch: int, steps: int) -> PeerCase:
    row = Row("hgrn", heads, dim, batch, steps)
    return PeerCase(row, ("bfloat16",), ("auto", "attention", "fla", "accelerated-scan"))


_SHORT = PeerCase(Row("lstm", 12, 64, _BATCH, 32), ("bfloat16",), ("auto", "loop", "compile"))

_CUDA: tuple[PeerCase, ...] = (
    _half(12, 64, "compile-step"),
    _half(1, UNITS),
    # The layers that TorchRL and Haste have kernels for.
    *_single("gru", 64, 128, 64),
    *_single("lstm", 128, 64, 128),
    *_single("gru", 512, 64, 256),
    *_single("lstm", 512, 64, 256),
    PeerCase(Row("gru", 1, 512, 64, 256), ("float16",), ("auto", "module", "nn", "haste")),
    # Recurrences without a product of the state.
    _without_product(12, 64, _BATCH, STEPS),
    _without_product(4, 128, _BATCH, 16384),
    _without_product(4, 512, 1, 65536),
    # Over head dim, at 768 units in all.
    *(_half(UNITS // dim, dim) for dim in (16, 32, 128, 256, 384)),
    # Over batch and over length.
    *(_half(12, 64, batch=batch) for batch in (1, 2, 64, 128)),
    *(_half(12, 64, steps=steps) for steps in (128, 512, 4096, 8192)),
    *(_half(1, UNITS, batch=batch) for batch in (1, 2, 64, 128)),
    *(_half(1, UNITS, steps=steps) for steps in (128, 512, 4096, 8192)),
    # Last: compiling an unrolled loop takes long.
    _SHORT,
)

_CPU: tuple[PeerCase, ...] = (
    PeerCase(
        Row("lstm", 1, 64, 8, 32),
        ("float32",),
        ("auto", "module", "nn", "torchrl", "haste", "attention", "loop"),
        float32="ieee",
    ),
    PeerCase(Row("hgrn", 4, 64, 8, 64), ("float32",), ("auto", "fla", "accelerated-scan")),
    PeerCase(Row("gru", 1, 64, 8, 32), ("float32",), ("auto", "module", "nn", "attention")),
)
