"""A contender of `rnnc bench`: one implementation in one dtype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..inputs import Call, Inputs

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
