"""Options that several commands of `rnnc` share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import torch
import typer

from ..errors import RnncError

CELL = "A cell's name, as `rnnc list` has it, or a file and a name in it: my_cell.py:my_cell."


class Scalar(StrEnum):
    """The scalar types that kernels are written in."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


class Variant(StrEnum):
    """The kinds of plans for a GPU."""

    AUTO = "auto"
    BLOCK = "block"
    CLUSTER = "cluster"
    GRID = "grid"
    ALTERNATING = "alternating"


class Device(StrEnum):
    """Where kernels run."""

    CPU = "cpu"
    CUDA = "cuda"


class NoGpuError(RnncError):
    """The caller asked for a GPU, and there is none."""


def need_gpu(command: str) -> None:
    """Refuse what needs a GPU where there is none.

    Args:
        command: what was asked for, without its device.

    Raises:
        NoGpuError: torch sees no CUDA device.
    """
    if not torch.cuda.is_available():
        raise NoGpuError(
            f"{command} --device cuda",
            "no CUDA device that torch can use",
            "an NVIDIA GPU of compute capability 8.0 or newer",
            f"{command} --device cpu",
        )


class SaveWord(StrEnum):
    """What a forward keeps for the backward."""

    GATES = "gates"
    STATES = "states"


CellWord = Annotated[str, typer.Argument(help=CELL)]
Heads = Annotated[int, typer.Option(help="Heads, each with a recurrent matrix of its own.")]
HeadDim = Annotated[int, typer.Option(help="Units of a head.")]
Batch = Annotated[int, typer.Option(help="Batch rows.")]
Gpu = Annotated[str, typer.Option(help="A GPU, as `rnnc limits` names it.")]
DtypeOption = Annotated[Scalar, typer.Option(help="The type of all tensors.")]
VariantOption = Annotated[Variant, typer.Option(help="Which kind of plan.")]
SaveOption = Annotated[
    SaveWord, typer.Option("--save", help="What the forward keeps for the backward.")
]
