"""The cases of `rnnc bench --ragged`: batches whose rows end or start anew on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..users.cases import among

Module = Literal["lstm", "gru"]
Dtype = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class RaggedCase:
    """A forward and its backward of a module.

    Attributes:
        module: the cell's name.
        hidden: units of a layer and direction, and features of the input.
        batch: batch rows.
        steps: steps of the longest row.
        dtype: of parameters and input.
        layers: stacked layers.
        both: whether a layer runs in both directions.
        resets: the share of all steps at which a row starts anew.
        shortest: steps of the shortest row; 0 where all rows are as long as the longest.

    Example:
        >>> from rnnc.bench.ragged.cases import RaggedCase
        >>> print(RaggedCase("gru", 64, 128, 16, resets=0.01))
        GRU 64, B 128, T 16, float32, 1 % resets
    """

    module: Module
    hidden: int
    batch: int
    steps: int
    dtype: Dtype = "float32"
    layers: int = 1
    both: bool = False
    resets: float = 0.0
    shortest: int = 0

    def __str__(self) -> str:
        size = f"{self.layers} x {self.hidden}" if self.layers > 1 else str(self.hidden)
        words = [f"{self.module.upper()} {size}", f"B {self.batch}"]
        words += ["both directions"] if self.both else []
        words += [
            f"lengths {self.shortest} to {self.steps}" if self.shortest else f"T {self.steps}"
        ]
        words += [self.dtype, *([f"{100 * self.resets:g} % resets"] if self.resets else [])]
        return ", ".join(words)


def ragged_cases(device: str, words: str | None = None) -> tuple[RaggedCase, ...]:
    """The cases of a device.

    Args:
        device: "cpu" or "cuda".
        words: a part of their names, or their numbers as in "1-3"; None for all.

    Raises:
        BenchError: there is no such case.

    Example:
        >>> from rnnc.bench.ragged.cases import ragged_cases
        >>> [str(case) for case in ragged_cases("cpu")]
        ['LSTM 256, B 64, lengths 20 to 200, float32', 'GRU 64, B 128, T 64, float32, 1 % resets']
    """
    return among(_CPU if device == "cpu" else _CUDA, words, "GRU")


_CUDA = (
    RaggedCase("gru", 64, 128, 16, resets=0.01),
    RaggedCase("gru", 64, 128, 64, resets=0.01),
    RaggedCase("lstm", 512, 64, 512, "bfloat16", resets=0.01),
    RaggedCase("lstm", 384, 64, 1600, "float16", layers=5, both=True, shortest=50),
    RaggedCase("lstm", 128, 32, 500, layers=2, both=True, shortest=20),
    # Last: compiling the peer's kernels for it may take longer than all that comes before.
    RaggedCase("gru", 256, 128, 64, resets=0.01),
)

_CPU = (
    RaggedCase("lstm", 256, 64, 200, shortest=20),
    RaggedCase("gru", 64, 128, 64, resets=0.01),
)
