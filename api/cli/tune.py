"""`rnnc tune`: the plans with the lowest estimates, timed on the GPU that is here."""

from __future__ import annotations

import torch
from rich.table import Table

from ..codegen.cuda.alternating.plan import AlternatingPlan
from ..codegen.cuda.block.plan import BlockPlan
from ..codegen.cuda.cluster.plan import ClusterPlan
from ..codegen.cuda.mixed_plan import CallPlan
from ..codegen.plan import CudaPlan
from ..codegen.shape import DIRECTIONS, Save, Shape
from ..runtime.cuda.driver.device import device_limits
from ..runtime.cuda.precision import tf32_allowed
from ..runtime.cuda.tune import CANDIDATES, Trial, Tuning, tune
from ..runtime.errors import NoCudaError
from ..runtime.store.tuned import Asked
from .console import print_lines, print_table
from .find import find_cell


def print_tuning(cell: str, shape: Shape, save: Save, candidates: int | None) -> None:
    """Time plans on this machine's GPU, remember the fastest, and print them all.

    Args:
        cell: as `rnnc show` takes it.
        shape: the sizes.
        save: what the forward saves for the backward.
        candidates: how many plans are timed; None for the usual number.

    Raises:
        RnncError: there is no such cell or plan, or no GPU.
    """
    found = find_cell(cell)
    limits = device_limits(_device())
    tf32 = tf32_allowed(getattr(torch, shape.dtype))
    asked = Asked(found, shape, limits, save, tf32)
    print_lines(f"{found.name}, {shape}\n{limits}\n")
    tuning = tune(asked, _device(), CANDIDATES if candidates is None else candidates)
    print_table(_table(tuning))
    print_lines(f"\n* {tuning.winner}")


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
    for trial in tuning.trials:
        estimate = f"{sum(trial.plan.nanoseconds)} ns"
        table.add_row(_sizes(trial.plan), estimate, *_measured(trial, tuning.winner))
    return table


def _measured(trial: Trial, winner: CallPlan) -> tuple[str, ...]:
    if trial.microseconds is None:
        return ("-", "-", trial.failure)
    both = zip(DIRECTIONS, trial.microseconds, strict=True)
    times = [f"{'* ' * (trial.plan == winner.of(d))}{took:.2f} us" for d, took in both]
    return (*times, f"{sum(trial.microseconds):.2f} us a step")


def _sizes(plan: CudaPlan) -> str:
    """What tells a plan from its neighbours, in a few words."""
    if isinstance(plan, AlternatingPlan):
        return f"alternating: the {plan.product} product" + (
            f", {plan.own.rows} rows" if plan.own else ""
        )
    forward, backward = plan.forward, plan.backward
    if isinstance(plan, BlockPlan):
        return f"block: {plan.rows} rows; {forward.warps} and {backward.warps} warps"
    if isinstance(plan, ClusterPlan):
        blocks = f"{plan.forward.cluster} and {plan.backward.cluster} blocks"
        return f"cluster: {plan.rows} rows; {blocks}, {forward.warps} and {backward.warps} warps"
    blocks = f"{plan.groups} x {plan.forward.blocks} and {plan.backward.blocks} blocks"
    return (
        f"grid: {plan.rows} rows; {blocks}, {forward.warps} and {backward.warps} warps,"
        f" clusters of {plan.backward.cluster}"
    )
