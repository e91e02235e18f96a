"""Options that several commands of `rnnc` share."""

from __future__ import annotations

import glob
from enum import StrEnum
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from ..cellspec.library import NAMES
from ..codegen.cuda.limits import PRESETS

CELL = "A cell's name, as `rnnc list` shows it, or a file and a name in it: my_cell.py:my_cell."


def cell_words(incomplete: str) -> list[str]:
    """Return what a shell offers for a cell: the names of cells, and Python files."""
    names = {*NAMES, *(point.name for point in entry_points(group="rnnc.cells"))}
    files = glob.glob(f"{glob.escape(incomplete)}*.py")
    return sorted([*(name for name in names if name.startswith(incomplete)), *files])


def gpu_words(incomplete: str) -> list[str]:
    """Return a shell's words for a GPU: the first word of each name, which is enough to name it."""
    names = (limits.name.split()[0] for limits in PRESETS)
    return [name for name in names if name.startswith(incomplete)]


# A single step has kernels of its own, which are no choice.
_STEP = "step"


def variant_words(incomplete: str) -> list[str]:
    """Return a shell's words for a kind of plan: `"auto"`, and each kind, by its template's name.

    The registry of kinds imports what takes longer than a shell waits. It checks the word later.
    """
    end = ".cu.jinja"
    files = (file.name for file in resources.files("rnnc.templates").joinpath("cuda").iterdir())
    kinds = sorted({name.removesuffix(end) for name in files if name.endswith(end)} - {_STEP})
    return [word for word in ("auto", *kinds) if word.startswith(incomplete)]


class Scalar(StrEnum):
    """The scalar types of kernels."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


class Device(StrEnum):
    """Device on which kernels run."""

    CPU = "cpu"
    CUDA = "cuda"


class SaveWord(StrEnum):
    """Values that a forward saves for the backward."""

    GATES = "gates"
    STATES = "states"


CellWord = Annotated[str, typer.Argument(help=CELL, autocompletion=cell_words)]
CellOption = Annotated[str, typer.Option(help=CELL, autocompletion=cell_words)]
Heads = Annotated[int, typer.Option(help="Heads; each has its own recurrent matrix.")]
HeadDim = Annotated[int, typer.Option(help="Units per head.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps of a sequence.")]
Batch = Annotated[int, typer.Option(help="Batch rows.")]
Gpu = Annotated[
    str, typer.Option(help="A GPU, as `rnnc limits` names it.", autocompletion=gpu_words)
]
DtypeOption = Annotated[Scalar, typer.Option(help="The type of all tensors.")]
VariantOption = Annotated[str, typer.Option(help="The kind of plan.", autocompletion=variant_words)]
Features = Annotated[
    int | None,
    typer.Option(help="Features of a module's input: for a single step of its layers."),
]
ReverseOption = Annotated[
    bool, typer.Option("--reverse", help="From the last step to the first.", show_default=False)
]
SaveOption = Annotated[
    SaveWord, typer.Option("--save", help="What the forward saves for the backward.")
]

Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="A file for a picture of the table, such as table.svg."),
]
