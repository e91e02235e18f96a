"""`rnnc plan`: the plan of a cell on a GPU, its estimated cost, and the limits of other plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.table import Table

from ..cellspec.stages.words import notes_on_exchanges
from ..codegen.cuda.cost.fitted import constants_for, is_fitted
from ..codegen.cuda.kinds import kinds_for
from ..codegen.cuda.limits import Limits, limits_of
from ..codegen.cuda.planner import plan_for
from ..codegen.plan import Plan
from ..codegen.shape import PlanError, Shape
from ..define import Cell
from .console import print_lines, print_table
from .find import find_cell
from .picture import Mark, check_picture, write_picture
from .progress import stage


def print_plan(
    cell: str,
    shape: Shape,
    gpu: str,
    variant: str,
    features: int | None = None,
    picture: Path | None = None,
) -> None:
    """Print the plan of a cell on a GPU, and the estimates of all kinds of plans.

    Args:
        cell: as `rnnc show` takes it.
        shape: the sizes.
        gpu: a GPU by name.
        variant: the kind of plan, or "auto".
        features: of a module's input, for a single step of its layers; None for calls over time.
        picture: a file for a picture of the table.

    Raises:
        RnncError: there is no such cell, GPU or plan.
    """
    check_picture(picture)
    found, limits = find_cell(cell), limits_of(gpu)
    with stage(f"planning {found.name}"):
        plan = plan_for(found, shape, limits, variant, features=features)
        plans = dict(_plans(found, shape, limits, features))
    if plan.variant in plans and plan.forward.steps_per_launch == "all":
        # "auto" may join two kernels of one kind that its own plan does not join. Of a kind with
        # launches per step it says why the others do not fit, as their rows do.
        plans[plan.variant] = plan
    print_lines(f"{found.name}, {shape}\n{limits}\n")
    print_table(_table(shape, plan, plans))
    if any(plan.nanoseconds):
        parts = f"forward {plan.forward.estimate}, backward {plan.backward.estimate}"
        print_lines(f"  * in ns: {parts}")
    if any(plan.nanoseconds) and not is_fitted(limits):
        print_lines(f"  (estimated with constants fitted on an {constants_for(limits).fitted_on})")
    print_lines(f"\n* {plan}")
    print_lines("\n".join(["", f"recurrence: {found.recurrence}", *notes_on_exchanges(found)]))
    title = f"{found.name}, {shape}, on {limits.name}; taken: {plan.variant}"
    write_picture(picture, title, "ns per step, estimated", list(_marks(plan, plans)))


def _plans(
    cell: Cell, shape: Shape, limits: Limits, features: int | None
) -> Iterator[tuple[str, Plan | PlanError]]:
    """The plan of each kind, or why there is none."""
    for variant in kinds_for(single=features is not None):
        try:
            yield variant, plan_for(cell, shape, limits, variant, features=features)
        except PlanError as error:
            yield variant, error


def _marks(taken: Plan, plans: Mapping[str, Plan | PlanError]) -> Iterator[Mark]:
    for variant, plan in plans.items():
        if isinstance(plan, Plan):
            forward, backward = plan.nanoseconds
            yield Mark(variant, "forward", forward or None)
            yield Mark(variant, "backward", backward or None)
    for direction, kernel in (("forward", taken.forward), ("backward", taken.backward)):
        yield Mark(kernel.kind, f"{direction}, taken", kernel.nanoseconds or None, ours=True)


def _table(shape: Shape, taken: Plan, plans: Mapping[str, Plan | PlanError]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  estimate")
    for column in ("forward", "backward", f"T = {shape.steps}"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for variant, plan in plans.items():
        if isinstance(plan, PlanError):
            table.add_row(f"  {variant}", "-", "-", "-", f"does not fit: wants {plan.wanted}")
            continue
        binds = f"binds: {plan.binding}" if plan.binding else "fits"
        table.add_row(*_estimate(plan, taken, shape.steps), binds)
    if "+" in taken.variant:
        table.add_row(*_estimate(taken, taken, shape.steps), "each direction of its own kind")
    return table


def _estimate(plan: Plan, taken: Plan, steps: int) -> tuple[str, ...]:
    """A plan's name, and what it costs, where there is an estimate."""
    name = f"{'*' if plan.variant == taken.variant else ' '} {plan.variant}"
    forward, backward = plan.nanoseconds
    if not forward + backward:
        return name, "-", "-", "-"
    return (
        name,
        f"{forward} ns per step",
        f"{backward} ns per step",
        f"{(forward + backward) * steps / 1e6:.2f} ms",
    )
