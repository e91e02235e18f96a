"""`rnnc fuzz`: compares random cells and calls with plain torch loops."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Device, variant_words


def fuzz_command(
    seed: Annotated[
        int | None, typer.Option(help="The seed of all random choices; a new one by default.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="The number of cells; 100 by default.", min=1)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Start no cell after this many seconds.", min=0)
    ] = None,
    device: Annotated[Device, typer.Option(help="Where the kernels run.")] = Device.CPU,
    variant: Annotated[
        str | None,
        typer.Option(
            help="The kind of plan on a GPU; all kinds by default.", autocompletion=variant_words
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Processes that run cells at the same time.", min=1)
    ] = 1,
    compiled: Annotated[
        float, typer.Option(help="The share of calls through torch.compile, which takes long.")
    ] = 0.01,
) -> None:
    """Draw cells and calls at random, and compare them with plain torch loops.

    float64 must agree to 1e-9 of the largest value; in other dtypes an error may be three times
    that of the loop in the same dtype. A failure is shrunk and printed as Python. The exit code is
    1 if anything is wrong.
    """
    from ..fuzz import fuzz

    if not fuzz(seed, count, seconds, device.value, variant, compiled, jobs):
        raise typer.Exit(1)
