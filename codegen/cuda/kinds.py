"""The kinds of plans for a GPU, in a registry that other packages can add to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

import jinja2

from ...cellspec.cell import CellSpec
from ..one_stage import check_one_stage
from ..render import register_template, unregister_template
from ..request import PlanRequest
from ..shape import Direction, Dtype, PlanError
from .alternating.plan import AlternatingPlan
from .alternating.search import alternating_kernels
from .block.plan import BlockPlan
from .block.search import block_kernels, block_tilings, largest_block_head
from .cluster.plan import ClusterPlan
from .cluster.search import cluster_kernels, largest_cluster_head
from .grid.cost import least_grid_nanoseconds
from .grid.largest import largest_grid_head
from .grid.plan import GridPlan
from .grid.search import grid_kernels
from .kernel_plan import KernelPlan
from .limits import Limits
from .scan.plan import ScanPlan
from .scan.search import scan_kernels, scan_or_walk_kernels, scan_tilings
from .step.plan import StepPlan
from .step.search import step_kernels
from .walk.plan import WalkPlan
from .walk.search import walk_kernels, walk_tilings


class FindKernels(Protocol):
    """Finds the plans of one direction's kernel, those of each cut of the batch cheapest first.

    Raises:
        PlanError: a direction has none; names the constraint that binds.
    """

    def __call__(self, request: PlanRequest, direction: Direction) -> Sequence[KernelPlan]:
        """The plans.

        Args:
            request: what they are asked for.
            direction: which of the two kernels.
        """
        ...


# How many times the lowest estimate of its cut a grid kernel's may be, to be measured.
_FURTHER = 1.5
# The largest head dim, a multiple of 8, whose R stays on the chip, or 0.
LargestHead = Callable[[CellSpec, Dtype, Limits, int], int]


@dataclass(frozen=True)
class PlanKind:
    """One way to run a cell on a GPU.

    Attributes:
        plan: the class of its plans, whose `kind` is the word that asks for it.
        candidates: finds the plans of a direction, or raises the error that says why there is none.
        candidates_for_auto: finds those that `"auto"` considers; None if it considers none.
        candidates_for_auto_else: finds those that `"auto"` considers where all others launch a
            kernel per step; None if it considers no more.
        tilings: finds further plans for measurements, which `candidates_for_auto` leaves out by
            rules of its own; None where there are none.
        least_nanoseconds: gives a lower bound for the estimates of all plans on a GPU, forward and
            backward. `"auto"` skips the search if each direction already has a plan that costs no
            more. None if the kind has no bound.
        largest_head: gives the largest head dim, a multiple of 8, for which plans keep R on the
            chip, or 0, for a cell, a dtype, a GPU and a number of heads. None if the kind does not
            keep R on the chip, and so takes every head.
        single: whether its plans run a single step of a module's layers. Those of other kinds run a
            layer over time.
        takes_stages: whether its kernels run cells that call gates or reduce over units.
    """

    plan: type[KernelPlan]
    candidates: FindKernels
    candidates_for_auto: FindKernels | None = None
    candidates_for_auto_else: FindKernels | None = None
    tilings: FindKernels | None = None
    least_nanoseconds: Callable[[Limits], tuple[float, float]] | None = None
    largest_head: LargestHead | None = None
    single: bool = False
    takes_stages: bool = False

    @property
    def name(self) -> str:
        """The word that asks for it."""
        return self.plan.kind

    def check(self, cell: CellSpec) -> None:
        """Refuse a cell that kernels of this kind do not run.

        Args:
            cell: the cell.

        Raises:
            PlanError: the cell calls a gate or reduces over units, and the kind takes no such cell.
        """
        if not self.takes_stages:
            check_one_stage(cell, self.name, 'variant="auto"')


# In the order of preference between plans of the same cost.
KINDS: dict[str, PlanKind] = {
    kind.name: kind
    for kind in (
        PlanKind(
            BlockPlan,
            block_kernels,
            # Kernels with fewer registers than the bounds of all cells take 0.8 to 1.2 times as
            # long as those of clusters (layer_norm_lstm, 72 to 96 units, H100), and 0.2 times as
            # long as a kernel per step: mogrifier_lstm, 8 x 8, T 256, 1.5 ms in place of 7.2.
            partial(block_kernels, close=False),
            partial(block_kernels, spills=False),
            tilings=block_tilings,
            largest_head=largest_block_head,
            takes_stages=True,
        ),
        PlanKind(
            ClusterPlan,
            cluster_kernels,
            # The estimates of clusters that exchange nothing were fitted to no measurement.
            partial(cluster_kernels, exchanging=True, close=False),
            largest_head=largest_cluster_head,
            takes_stages=True,
        ),
        PlanKind(
            GridPlan,
            grid_kernels,
            # No grid plan that streams a part of R has been measured against an alternating plan,
            # and the constants of its estimate are guesses.
            partial(grid_kernels, streams=False, close=False),
            tilings=partial(grid_kernels, streams=False, close=False, near=_FURTHER),
            least_nanoseconds=least_grid_nanoseconds,
            largest_head=largest_grid_head,
            takes_stages=True,
        ),
        PlanKind(WalkPlan, walk_kernels, walk_kernels, tilings=walk_tilings),
        PlanKind(ScanPlan, scan_kernels, scan_or_walk_kernels, tilings=scan_tilings),
        PlanKind(AlternatingPlan, alternating_kernels, alternating_kernels, takes_stages=True),
        PlanKind(StepPlan, step_kernels, step_kernels, single=True),
    )
}


def kinds_for(*, single: bool = False) -> dict[str, PlanKind]:
    """The kinds of plans by their names, in the order of preference.

    Args:
        single: whether to give those for a single step; else those for calls over time.
    """
    return {name: kind for name, kind in KINDS.items() if kind.single == single}


def best_tilings(
    request: PlanRequest, direction: Direction, count: int = 5
) -> tuple[KernelPlan, ...]:
    """The kernels with the lowest estimates of each kind that `"auto"` considers, for measurements.

    Args:
        request: what they are asked for.
        direction: which of the two kernels.
        count: how many of each kind, at most.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.kinds import best_tilings
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.request import PlanRequest
        >>> from rnnc.codegen.shape import Shape
        >>> request = PlanRequest(rnnc.cells.lstm, Shape(1, 64, 128), limits_of("H200"))
        >>> sorted({plan.kind for plan in best_tilings(request, "forward")})
        ['alternating', 'block', 'cluster', 'grid']
    """
    found: list[KernelPlan] = []
    for kind in kinds_for(single=request.single).values():
        find = kind.candidates_for_auto and (kind.tilings or kind.candidates_for_auto)
        if find is not None:
            with suppress(PlanError):  # this kind has no plan
                kind.check(request.cell)
                plans = sorted(find(request, direction), key=lambda plan: plan.cost)
                found += plans[:count]
    return tuple(found)


@cache
def variants(*, single: bool = False) -> tuple[str, ...]:
    """The words that ask for a plan: `"auto"`, and the name of each kind.

    Args:
        single: as of `kinds_for`.
    """
    return ("auto", *kinds_for(single=single))


def check_variant(variant: str, *, single: bool = False) -> None:
    """Check that a word asks for a plan.

    Args:
        variant: the word.
        single: as of `kinds_for`.

    Raises:
        PlanError: it is neither `"auto"` nor the name of a kind.
    """
    words = variants(single=single)
    if variant not in words:
        where = "plan of a single step" if single else "plan"
        raise PlanError(
            where, f"variant={variant!r}", f"one of {', '.join(words)}", 'variant="auto"'
        )


def register_kind(
    kind: PlanKind, loader: jinja2.BaseLoader, headers: Sequence[tuple[str, str]] = ()
) -> None:
    """Add a kind of plan: `plan_for(..., variant=kind.name)` finds its plans, `render` writes them.

    `runtime.cuda.launchers.register_launcher` adds the code that launches its kernels.

    Args:
        kind: the kind.
        loader: has its template under the name `cuda/<name>.cu.jinja`.
        headers: path and text of each header that the template includes besides the library's.

    Raises:
        ValueError: there is a kind of this name.
    """
    if kind.name in KINDS:
        raise ValueError(f"there is a kind of plan with the name {kind.name!r}")
    register_template(_template(kind.name), loader, headers)
    KINDS[kind.name] = kind
    variants.cache_clear()


def unregister_kind(name: str) -> None:
    """Remove a kind of plan that `register_kind` added.

    Args:
        name: of the kind.

    Raises:
        KeyError: there is no kind of this name.
    """
    del KINDS[name]
    variants.cache_clear()
    unregister_template(_template(name))


def _template(kind: str) -> str:
    return f"cuda/{kind}.cu.jinja"
