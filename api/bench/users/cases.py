"""The cases of `rnnc bench --users`: sizes and settings as people call recurrent modules."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from ..rows import BenchError, numbers_named

Case = TypeVar("Case")
Module = Literal["lstm", "gru", "elman"]
Dtype = Literal["float32", "bfloat16", "float16"]
# What is timed: a forward and its backward, a forward without gradients, or one step of either. A
# compiled module is under `torch.compile`.
Mode = Literal["training", "inference", "step", "step training", "compiled", "compiled inference"]


@dataclass(frozen=True)
class UserCase:
    """One call of a module.

    Attributes:
        module: the cell's name; `elman` is torch's `nn.RNN`.
        hidden: units of a layer and direction.
        batch: batch rows.
        steps: steps of a sequence.
        dtype: of parameters and input.
        mode: what is timed.
        layers: stacked layers.
        both: whether a layer runs in both directions.
        batch_first: whether input and output are (B, T, features).
        inputs: features of the input; 0 for as many as `hidden`.
        name: what the case is in practice, where it is one of a kind.

    Example:
        >>> from rnnc.bench.users.cases import UserCase
        >>> print(UserCase("lstm", 128, 256, 16, layers=2))
        LSTM 2 x 128, B 256, T 16, float32, training
    """

    module: Module
    hidden: int
    batch: int
    steps: int = 1
    dtype: Dtype = "float32"
    mode: Mode = "training"
    layers: int = 1
    both: bool = False
    batch_first: bool = False
    inputs: int = 0
    name: str = ""

    @property
    def features(self) -> int:
        """Features of the input."""
        return self.inputs or self.hidden

    @property
    def trains(self) -> bool:
        """Whether gradients are computed."""
        return self.mode in ("training", "step training", "compiled")

    @property
    def compiled(self) -> bool:
        """Whether `torch.compile` runs the module."""
        return self.mode.startswith("compiled")

    @property
    def stepwise(self) -> bool:
        """Whether the call is one step, as `nn.LSTMCell` does it."""
        return self.mode.startswith("step")

    def __str__(self) -> str:
        shown = {"lstm": "LSTM", "gru": "GRU", "elman": "RNN"}[self.module]
        size = f"{self.layers} x {self.hidden}" if self.layers > 1 else str(self.hidden)
        length = [] if self.stepwise else [f"T {self.steps}"]
        options = [self.name, "both directions" if self.both else ""]
        options += ["batch_first" if self.batch_first else ""]
        words = [f"{shown} {size}", f"B {self.batch}", *length, self.dtype, self.mode, *options]
        return ", ".join(word for word in words if word)


def cases_for(device: str) -> tuple[UserCase, ...]:
    """The cases of a device.

    Args:
        device: "cpu" or "cuda".

    Example:
        >>> from rnnc.bench.users.cases import cases_for
        >>> len(cases_for("cuda"))
        60
    """
    return _CPU if device == "cpu" else _CUDA


def cases_named(words: str | None, device: str) -> tuple[UserCase, ...]:
    """The cases of a device that a word of the command line names.

    Args:
        words: a part of their names, or their numbers as in "1-30,45"; None for all.
        device: "cpu" or "cuda".

    Raises:
        BenchError: there is no such case.

    Example:
        >>> from rnnc.bench.users.cases import cases_named
        >>> [case.steps for case in cases_named("PPO", "cuda")]
        [16, 64]
        >>> len(cases_named("1-30,45", "cuda"))
        31
    """
    return among(cases_for(device), words, "PPO")


def among(cases: tuple[Case, ...], words: str | None, example: str) -> tuple[Case, ...]:
    """Those of some cases that a word of the command line names.

    Args:
        cases: each has its name as `str`.
        words: as in `cases_named`.
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


def _in_training(dtype: Dtype, *sizes: tuple[Module, int, int, int]) -> tuple[UserCase, ...]:
    return tuple(UserCase(*each, dtype=dtype) for each in sizes)


_BOTH = UserCase("lstm", 128, 32, 512, "bfloat16", layers=2, both=True)
_RECOGNISER = UserCase("lstm", 256, 64, 80, layers=2, both=True, name="recogniser of text")
_BASECALLER = UserCase("lstm", 384, 64, 1600, "float16", layers=5, name="basecaller")

_CUDA: tuple[UserCase, ...] = (
    *_in_training(
        "float32",
        ("lstm", 512, 64, 256),
        ("lstm", 1024, 32, 512),
        ("lstm", 128, 64, 128),
        ("lstm", 128, 256, 16),
        ("lstm", 64, 512, 16),
        ("lstm", 512, 1, 64),
        ("lstm", 32, 16, 64),
        ("lstm", 256, 64, 1024),
        ("lstm", 128, 16, 8192),
        ("gru", 512, 64, 256),
        ("gru", 256, 32, 256),
        ("gru", 1024, 16, 64),
        ("gru", 128, 256, 16),
        ("gru", 32, 1, 64),
        ("elman", 256, 32, 256),
        ("elman", 128, 256, 16),
        ("elman", 1024, 64, 64),
    ),
    UserCase("lstm", 256, 128, 100, layers=2, batch_first=True),
    UserCase("gru", 64, 128, 16, name="PPO"),
    UserCase("gru", 64, 128, 64, name="PPO"),
    *_in_training(
        "bfloat16",
        ("lstm", 128, 256, 16),
        ("lstm", 512, 512, 64),
        ("lstm", 1024, 64, 256),
        ("lstm", 256, 32, 1024),
        ("lstm", 64, 512, 64),
        ("lstm", 128, 1, 8192),
        ("gru", 512, 64, 256),
        ("gru", 128, 256, 16),
        ("gru", 1024, 16, 1024),
        ("elman", 512, 64, 256),
    ),
    UserCase("lstm", 512, 16, 1024, "bfloat16", layers=4),
    *_in_training(
        "float16",
        ("lstm", 512, 64, 256),
        ("lstm", 128, 256, 16),
        ("lstm", 1024, 32, 512),
        ("gru", 256, 64, 256),
    ),
    UserCase("lstm", 256, 128, 64, "float16", layers=2, batch_first=True),
    _BOTH,
    _RECOGNISER,
    replace(_RECOGNISER, dtype="float16"),
    UserCase("gru", 256, 32, 256, both=True),
    _BASECALLER,
    replace(_BASECALLER, both=True),
    UserCase("lstm", 512, 64, 256, mode="inference"),
    UserCase("lstm", 128, 256, 16, mode="inference"),
    UserCase("lstm", 512, 1, 16, mode="inference"),
    UserCase("lstm", 512, 1, 1, mode="inference"),
    UserCase("gru", 256, 16, 64, mode="inference"),
    UserCase("gru", 256, 128, 1, "bfloat16", mode="inference"),
    UserCase("lstm", 1024, 32, 256, "bfloat16", mode="inference"),
    UserCase("lstm", 512, 8, 64, "float16", mode="inference", layers=2),
    UserCase("lstm", 512, 1, mode="step"),
    UserCase("lstm", 512, 128, mode="step"),
    UserCase("gru", 256, 1, mode="step"),
    UserCase("elman", 128, 128, mode="step"),
    UserCase("lstm", 512, 128, dtype="bfloat16", mode="step"),
    UserCase("lstm", 512, 1, mode="step training"),
    UserCase("lstm", 512, 128, mode="step training"),
    UserCase("lstm", 128, 256, 16, mode="compiled"),
    UserCase("lstm", 512, 64, 256, "bfloat16", mode="compiled"),
    UserCase("gru", 256, 32, 64, mode="compiled inference"),
)

_SEQUENCES_ON_CPU: tuple[tuple[Module, int, int, int], ...] = (
    ("lstm", 64, 1, 64),
    ("lstm", 128, 16, 16),
    ("lstm", 256, 128, 16),
    ("lstm", 512, 1, 1),
    ("lstm", 512, 16, 64),
    ("gru", 64, 128, 64),
    ("gru", 128, 1, 16),
    ("gru", 256, 16, 64),
    ("gru", 512, 128, 1),
)
_INFERENCE_ON_CPU: tuple[tuple[Module, int, int, int], ...] = (
    ("lstm", 32, 128, 512),
    ("lstm", 64, 32, 512),
    ("lstm", 128, 128, 64),
    ("lstm", 256, 32, 64),
    ("lstm", 512, 8, 64),
    ("lstm", 512, 128, 16),
    ("lstm", 1024, 1, 64),
    ("lstm", 1024, 32, 16),
)
_MODES_ON_CPU: tuple[Mode, ...] = ("training", "inference")

_CPU: tuple[UserCase, ...] = (
    *(UserCase(*sizes, mode=mode) for mode in _MODES_ON_CPU for sizes in _SEQUENCES_ON_CPU),
    *(UserCase(*sizes, mode="inference") for sizes in _INFERENCE_ON_CPU),
    UserCase("lstm", 512, 1, mode="step"),
    UserCase("lstm", 512, 128, mode="step"),
    UserCase("gru", 256, 16, mode="step"),
)
