"""The kinds of plans for a GPU, in a registry that other packages can add to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import jinja2

from ...cellspec.cell import CellSpec
from ..render import register_template
from ..shape import Direction, Save, Shape
from .alternating.plan import AlternatingPlan
from .alternating.search import alternating_kernels
from .block.plan import BlockPlan
from .block.search import block_kernels
from .cluster.plan import ClusterPlan
from .cluster.search import cluster_kernels
from .grid.plan import GridPlan
from .grid.search import grid_kernels
from .kernel_plan import KernelPlan
from .limits import Limits


class FindKernels(Protocol):
    """Finds the plans of one direction's kernel, those of each cut of the batch cheapest first.

    Raises:
        PlanError: a direction has none; names the constraint that binds.
    """

    def __call__(
        self,
        cell: CellSpec,
        shape: Shape,
        limits: Limits,
        direction: Direction,
        save: Save = "gates",
        tf32: bool = False,
    ) -> Sequence[KernelPlan]:
        """The plans; the arguments are those of `plan_for`, and the direction."""
        ...


@dataclass(frozen=True)
class PlanKind:
    """One way to run a cell on a GPU.

    Attributes:
        plan: the class of its plans, whose `kind` is the word that asks for it.
        candidates: finds the plans of a direction.
    """

    plan: type[KernelPlan]
    candidates: FindKernels

    @property
    def name(self) -> str:
        """The word that asks for it."""
        return self.plan.kind


# In the order of preference where two cost the same.
KINDS: dict[str, PlanKind] = {
    kind.name: kind
    for kind in (
        PlanKind(BlockPlan, block_kernels),
        PlanKind(ClusterPlan, cluster_kernels),
        PlanKind(GridPlan, grid_kernels),
        PlanKind(AlternatingPlan, alternating_kernels),
    )
}


def register_kind(
    kind: PlanKind, loader: jinja2.BaseLoader, headers: Sequence[tuple[str, str]] = ()
) -> None:
    """Add a kind of plan: `plan_for(..., variant=kind.name)` finds its plans, `render` writes them.

    `"auto"` does not consider it.

    Args:
        kind: the kind.
        loader: has its template under the name `cuda/<name>.cu.jinja`.
        headers: path and text of each header that the template includes beside the library's.

    Raises:
        ValueError: there is a kind of this name.
    """
    if kind.name in KINDS or kind.name == "auto":
        raise ValueError(f"there is a kind of plan with the name {kind.name!r}")
    register_template(f"cuda/{kind.name}.cu.jinja", loader, headers)
    KINDS[kind.name] = kind
