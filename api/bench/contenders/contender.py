"""A contender of `rnnc bench`: one implementation in one dtype; and the kinds of contenders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from ..rows import BenchError

if TYPE_CHECKING:  # `rnnc bench --help` does without torch
    from ..inputs import Call, Inputs

Kind = Literal[
    "scan",
    "module",
    "nn",
    "auto",
    "flashrnn",
    "flashrnn-alternating",
    "flashrnn-packed",
    "torchrl",
    "haste",
    "attention",
    "fla",
    "fla-gla",
    "accelerated-scan",
    "speechbrain",
    "resets",
    "zoneout",
    "loop",
    "torch-loop",
    "compile",
    "compile-step",
    "compile-graph",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_KINDS: tuple[Kind, ...] = ("scan", "module", "nn", "flashrnn")
# What a time includes: either wx is given, or the input GEMM and its gradients are part of it.
Terms = Literal["wx ready", "with input GEMM"]


@dataclass(frozen=True)
class Contender:
    """One implementation in one dtype.

    Attributes:
        name: for people.
        dtype: the dtype of its tensors.
        ours: whether it is rnnc's.
        terms: what its time includes.
        prepare: makes the call; an error that it raises is reported as the contender's failure.
        variant: the kind of plan, for rnnc's kernels.
        note: how its work differs from the row's; such a contender is never the best peer.
        start: seconds that its first call needs for compilation.
    """

    name: str
    dtype: str
    ours: bool
    terms: Terms
    prepare: Callable[[Inputs], Call]
    variant: str | None = None
    note: str = ""
    start: float = 0


def kinds_named(words: str) -> list[Kind]:
    """The kinds of contenders in a list on the command line.

    Raises:
        BenchError: there is no such kind.
    """
    found = [word.strip() for word in words.split(",")]
    for word in found:
        if word not in KINDS:
            wanted = f"some of {', '.join(KINDS)}"
            raise BenchError(f"contender {word!r}", wanted, "--contenders scan,nn")
    return cast(list[Kind], found)
