"""`rnnc check`: compares the compiled kernels of cells with autograd of their equations."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import CELL, Device, Plot, cell_words


def check_command(
    cell: Annotated[
        list[str],
        typer.Argument(
            help=f"{CELL} A file alone means all of its cells.",
            metavar="CELL…",
            autocompletion=cell_words,
        ),
    ],
    seed: Annotated[
        int | None,
        typer.Option(
            min=-(2**63),  # the bounds of torch's seeds
            max=2**64 - 1,
            help="The seed of the random inputs; a new one each time by default.",
        ),
    ] = None,
    device: Annotated[
        Device, typer.Option(help="Where the kernels run; on a GPU, those of every plan that fits.")
    ] = Device.CPU,
    plot: Plot = None,
) -> None:
    """Check the compiled kernels of cells.

    Outputs and gradients are compared with autograd of the plain equations in float64. After one
    step from extreme pre-activations, every value that is finite in float64 must be finite in
    float32. On a GPU, the largest head of each kind of plan and an odd one are run forward and
    backward in float32 and bfloat16, and alternating plans also in float64: an error may be three
    times that of the plain loop in the same dtype. The exit code is 1 if anything is wrong.
    """
    from ..check import check_cells

    if not check_cells(cell, seed, device.value, plot):
        raise typer.Exit(1)
