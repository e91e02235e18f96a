"""The cases of `rnnc bench --users` and `--ragged`: modules, with sizes and settings of users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ..cases import among

Module = Literal["lstm", "gru", "elman"]
Dtype = Literal["float32", "bfloat16", "float16"]
# What is timed: a forward and its backward, a forward without gradients, or one step of either. A
# compiled module is under `torch.compile`.
Mode = Literal["training", "inference", "step", "step training", "compiled", "compiled inference"]


@dataclass(frozen=True)
class Case:
    """One call of a module.

    Attributes:
        module: the cell's name; `elman` is torch's `nn.RNN`.
        hidden: units of a layer and direction.
        batch: batch rows.
        steps: steps of a sequence; with `shortest`, of the longest row.
        dtype: of parameters and input.
        mode: what is timed.
        layers: stacked layers.
        both: whether a layer runs in both directions.
        batch_first: whether input and output are (B, T, features).
        inputs: features of the input; 0 for as many as `hidden`.
        name: what the case is in practice, where it is one of a kind.
        resets: the share of all steps at which a row starts anew.
        shortest: steps of the shortest row; 0 where all rows are as long as the longest.
        projected: features of the output of an LSTM; 0 for as many as `hidden`.

    Example:
        >>> from rnnc.bench.modules.cases import Case
        >>> print(Case("lstm", 128, 256, 16, layers=2))
        LSTM 2 x 128, B 256, T 16, float32, training
        >>> print(Case("gru", 64, 128, 16, resets=0.01))
        GRU 64, B 128, T 16, float32, 1 % resets
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
    resets: float = 0.0
    shortest: int = 0
    projected: int = 0

    @property
    def features(self) -> int:
        """Features of the input."""
        return self.inputs or self.hidden

    @property
    def trains(self) -> bool:
        """True if gradients are computed."""
        return self.mode in ("training", "step training", "compiled")

    @property
    def compiled(self) -> bool:
        """True if `torch.compile` runs the module."""
        return self.mode.startswith("compiled")

    @property
    def stepwise(self) -> bool:
        """True if the call is one step, as `nn.LSTMCell` does it."""
        return self.mode.startswith("step")

    def __str__(self) -> str:
        shown = {"lstm": "LSTM", "gru": "GRU", "elman": "RNN"}[self.module]
        size = f"{self.layers} x {self.hidden}" if self.layers > 1 else str(self.hidden)
        size += f" to {self.projected}" if self.projected else ""
        both = "both directions" if self.both else ""
        length = "" if self.stepwise else f"T {self.steps}"
        if self.resets or self.shortest:
            length = f"lengths {self.shortest} to {self.steps}" if self.shortest else length
            resets = f"{100 * self.resets:g} % resets" if self.resets else ""
            options = [both, length, self.dtype, resets]
        else:
            batch_first = "batch_first" if self.batch_first else ""
            options = [length, self.dtype, self.mode, self.name, both, batch_first]
        words = [f"{shown} {size}", f"B {self.batch}", *options]
        return ", ".join(word for word in words if word)


def user_cases(device: str, words: str | None = None) -> tuple[Case, ...]:
    """The users' cases of a device that a word of the command line names, as `among` reads it.

    Example:
        >>> from rnnc.bench.modules.cases import user_cases
        >>> [case.steps for case in user_cases("cuda", "PPO")]
        [16, 64]
        >>> len(user_cases("cuda")), len(user_cases("cuda", "1-30,45"))
        (60, 31)
    """
    return among(_CPU if device == "cpu" else _CUDA, words, "PPO")


def ragged_cases(device: str, words: str | None = None) -> tuple[Case, ...]:
    """The cases of a device whose rows end or start anew on the way, as `among` names them.

    Example:
        >>> from rnnc.bench.modules.cases import ragged_cases
        >>> [str(case) for case in ragged_cases("cpu")]
        ['LSTM 256, B 64, lengths 20 to 200, float32', 'GRU 64, B 128, T 64, float32, 1 % resets']
    """
    return among(_RAGGED_ON_CPU if device == "cpu" else _RAGGED, words, "GRU")


def _sized(sizes: str, **more: Any) -> tuple[Case, ...]:
    """Cases from words such as "lstm 512 64 256": the cell, units, batch rows and steps of each."""
    rows = (words.split() for words in sizes.split(","))
    return tuple(Case(cast(Module, m), int(h), int(b), int(t), **more) for m, h, b, t in rows)


_BOTH = Case("lstm", 128, 32, 512, "bfloat16", layers=2, both=True)
_RECOGNISER = Case("lstm", 256, 64, 80, layers=2, both=True, name="recogniser of text")
_BASECALLER = Case("lstm", 384, 64, 1600, "float16", layers=5, name="basecaller")

_CUDA: tuple[Case, ...] = (
    *_sized(
        "lstm 512 64 256, lstm 1024 32 512, lstm 128 64 128, lstm 128 256 16, lstm 64 512 16, "
        "lstm 512 1 64, lstm 32 16 64, lstm 256 64 1024, lstm 128 16 8192, gru 512 64 256, "
        "gru 256 32 256, gru 1024 16 64, gru 128 256 16, gru 32 1 64, elman 256 32 256, "
        "elman 128 256 16, elman 1024 64 64",
        dtype="float32",
    ),
    Case("lstm", 256, 128, 100, layers=2, batch_first=True),
    Case("gru", 64, 128, 16, name="PPO"),
    Case("gru", 64, 128, 64, name="PPO"),
    *_sized(
        "lstm 128 256 16, lstm 512 512 64, lstm 1024 64 256, lstm 256 32 1024, lstm 64 512 64, "
        "lstm 128 1 8192, gru 512 64 256, gru 128 256 16, gru 1024 16 1024, elman 512 64 256",
        dtype="bfloat16",
    ),
    Case("lstm", 512, 16, 1024, "bfloat16", layers=4),
    *_sized(
        "lstm 512 64 256, lstm 128 256 16, lstm 1024 32 512, gru 256 64 256",
        dtype="float16",
    ),
    Case("lstm", 256, 128, 64, "float16", layers=2, batch_first=True),
    _BOTH,
    _RECOGNISER,
    replace(_RECOGNISER, dtype="float16"),
    Case("gru", 256, 32, 256, both=True),
    _BASECALLER,
    replace(_BASECALLER, both=True),
    Case("lstm", 512, 64, 256, mode="inference"),
    Case("lstm", 128, 256, 16, mode="inference"),
    Case("lstm", 512, 1, 16, mode="inference"),
    Case("lstm", 512, 1, 1, mode="inference"),
    Case("gru", 256, 16, 64, mode="inference"),
    Case("gru", 256, 128, 1, "bfloat16", mode="inference"),
    Case("lstm", 1024, 32, 256, "bfloat16", mode="inference"),
    Case("lstm", 512, 8, 64, "float16", mode="inference", layers=2),
    Case("lstm", 512, 1, mode="step"),
    Case("lstm", 512, 128, mode="step"),
    Case("gru", 256, 1, mode="step"),
    Case("elman", 128, 128, mode="step"),
    Case("lstm", 512, 128, dtype="bfloat16", mode="step"),
    Case("lstm", 512, 1, mode="step training"),
    Case("lstm", 512, 128, mode="step training"),
    Case("lstm", 128, 256, 16, mode="compiled"),
    Case("lstm", 512, 64, 256, "bfloat16", mode="compiled"),
    Case("gru", 256, 32, 64, mode="compiled inference"),
)

_SEQUENCES_ON_CPU = _sized(
    "lstm 64 1 64, lstm 128 16 16, lstm 256 128 16, lstm 512 1 1, lstm 512 16 64, gru 64 128 64, "
    "gru 128 1 16, gru 256 16 64, gru 512 128 1"
)
_CPU: tuple[Case, ...] = (
    *_SEQUENCES_ON_CPU,
    *(replace(case, mode="inference") for case in _SEQUENCES_ON_CPU),
    *_sized(
        "lstm 32 128 512, lstm 64 32 512, lstm 128 128 64, lstm 256 32 64, lstm 512 8 64, "
        "lstm 512 128 16, lstm 1024 1 64, lstm 1024 32 16",
        mode="inference",
    ),
    Case("lstm", 512, 1, mode="step"),
    Case("lstm", 512, 128, mode="step"),
    Case("gru", 256, 16, mode="step"),
)

_RAGGED: tuple[Case, ...] = (
    Case("gru", 64, 128, 16, resets=0.01),
    Case("gru", 64, 128, 64, resets=0.01),
    Case("lstm", 512, 64, 512, "bfloat16", resets=0.01),
    Case("lstm", 384, 64, 1600, "float16", layers=5, both=True, shortest=50),
    Case("lstm", 128, 32, 500, layers=2, both=True, shortest=20),
    # Last: compiling the peer's kernels for it may take longer than all that comes before.
    Case("gru", 256, 128, 64, resets=0.01),
)
_RAGGED_ON_CPU: tuple[Case, ...] = (
    Case("lstm", 256, 64, 200, shortest=20),
    Case("gru", 64, 128, 64, resets=0.01),
)
