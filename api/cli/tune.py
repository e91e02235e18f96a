"""`rnnc tune`: times the plans with the lowest estimates on this machine's GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from rich.table import Table

from ..codegen.shape import DIRECTIONS, Save, Shape
from ..errors import NoCudaError
from ..runtime.cuda.driver.device import device_limits
from ..runtime.cuda.products.multiply import rounds
from ..runtime.cuda.tune import CANDIDATES, Trial, Tuning, tune
from ..runtime.store.tuned import Asked
from .console import print_lines, print_table
from .find import find_cell
from .picture import Mark, check_picture, write_picture
from .progress import stage


def print_tuning(
    cell: str, shape: Shape, save: Save, candidates: int | None, picture: Path | None = None
) -> None:
    """Time plans on this machine's GPU, remember the fastest, and print them all.

    Args:
        cell: as `rnnc show` takes it.
        shape: the sizes.
        save: what the forward saves for the backward.
        candidates: how many plans are timed; None for the usual number.
        picture: a file for a picture of the table.

    Raises:
        RnncError: there is no such cell or plan, or no GPU.
    """
    check_picture(picture)
    found = find_cell(cell)
    limits = device_limits(_device())
    tf32 = rounds(getattr(torch, shape.dtype), None)
    asked = Asked(found, shape, limits, save, tf32)
    print_lines(f"{found.name}, {shape}\n{limits}\n")
    with stage(f"timing plans of {found.name}"):
        tuning = tune(asked, _device(), CANDIDATES if candidates is None else candidates)
    print_table(_table(tuning))
    print_lines(f"\n* {tuning.winner}")
    title = f"{found.name}, {shape}, on {limits.name}"
    write_picture(picture, title, "us per step, forward + backward", list(_marks(tuning)))


def _marks(tuning: Tuning) -> Iterator[Mark]:
    for trial in tuning.trials:
        yield Mark(trial.plan.brief, "estimate", sum(trial.plan.nanoseconds) / 1000)
        took = sum(trial.microseconds) if trial.microseconds else None
        yield Mark(trial.plan.brief, "measured", took, ours=True)


def _device() -> int:
    if not torch.cuda.is_available():
        raise NoCudaError(
            "CUDA device",
            "none that torch can use",
            "a GPU that can run the plans",
            "rnnc plan, which estimates the times without a GPU",
        )
    return torch.cuda.current_device()


def _table(tuning: Tuning) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("plan")
    for column in ("estimate", "forward", "backward", "both"):
        table.add_column(column, justify="right", no_wrap=True)
    starred = _starred(tuning)
    for trial in tuning.trials:
        estimate = f"{sum(trial.plan.nanoseconds)} ns"
        table.add_row(trial.plan.brief, estimate, *_measured(trial, starred))
    return table


def _measured(trial: Trial, starred: Sequence[Trial]) -> tuple[str, ...]:
    """Return what a trial took, with a star in each direction in which its kernel is taken."""
    if trial.microseconds is None:
        return ("-", "-", trial.failure)
    both = zip(starred, trial.microseconds, strict=True)
    times = [f"{'* ' * (trial is taken)}{took:.2f} us" for taken, took in both]
    return (*times, f"{sum(trial.microseconds):.2f} us per step")


def _starred(tuning: Tuning) -> list[Trial]:
    """The trial of each direction whose kernel is taken: that of the winner, or the fastest."""
    winner, found = tuning.winner, []
    for number, direction in enumerate(DIRECTIONS):
        own = [t for t in tuning.trials if t.plan.kernel(direction) == winner.kernel(direction)]
        whole = [t for t in own if t.plan == winner]
        found.append(
            min(whole or own, key=lambda t: t.microseconds[number] if t.microseconds else math.inf)
        )
    return found
