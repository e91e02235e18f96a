"""`rnnc fuzz`: compares random cells, modules and calls with plain torch loops."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Device, variant_words


def fuzz_command(
    seed: Annotated[
        int | None, typer.Option(help="The seed of all random choices; a new one by default.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="The number of cases; 100 by default.", min=1)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Start no case after this many seconds.", min=0)
    ] = None,
    device: Annotated[Device, typer.Option(help="Where the kernels run.")] = Device.CPU,
    variant: Annotated[
        str | None,
        typer.Option(
            help="The kind of plan on a GPU; all kinds by default.", autocompletion=variant_words
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Processes that run cases at the same time.", min=1)
    ] = 1,
    compiled: Annotated[
        float | None,
        typer.Option(
            help="The share of calls of cells through torch.compile, which takes long; 0.01 by"
            " default."
        ),
    ] = None,
    modules: Annotated[
        bool,
        typer.Option(
            "--modules",
            help="Modules of known cells, and several calls of each, against the reference.",
            show_default=False,
        ),
    ] = False,
    cases: Annotated[
        str | None,
        typer.Option(help="The numbers of the only cases to run, in one process: 4,9,31."),
    ] = None,
) -> None:
    """Draw cells and calls at random, and compare them with plain torch loops.

    With --modules: layers, heads, directions, projections, and the calls of a module one after the
    other. float64 must agree to 1e-9 of the largest value; in other dtypes an error may be three
    times that of the loop in the same dtype. A failure is shrunk and printed as Python, with the
    command that runs it again. The exit code is 1 if anything is wrong.
    """
    from ..fuzz import DEFAULT_COMPILED, fuzz

    if modules and compiled is not None:
        raise typer.BadParameter("--compiled is for cells: --modules draws no such calls")
    numbers = [] if cases is None else _numbers(cases)
    if numbers and count is not None:
        raise typer.BadParameter("--cases names the cases: leave --count out")
    share = DEFAULT_COMPILED if compiled is None else compiled
    if not fuzz(seed, count, seconds, device.value, variant, share, jobs, modules, numbers):
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    """Return the numbers of cases in a text such as 4,9,31."""
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise typer.BadParameter(f"--cases takes numbers such as 4,9,31, not {text!r}")
    return [int(word) for word in words]
