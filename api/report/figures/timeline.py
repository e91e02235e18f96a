"""The cost model's parts of one step, each with the time that other parts hide."""

from __future__ import annotations

from typing import NamedTuple

from ...cellspec.cell import CellSpec
from ...codegen.cuda.alternating.cost import alternating_step
from ...codegen.cuda.alternating.plan import AlternatingPlan
from ...codegen.cuda.block.cost import block_step
from ...codegen.cuda.block.plan import BlockPlan
from ...codegen.cuda.cluster.cost import cluster_step
from ...codegen.cuda.cluster.plan import ClusterPlan
from ...codegen.cuda.cost.estimate import Step
from ...codegen.cuda.cost.inputs import CostInputs
from ...codegen.cuda.grid.cost import grid_step
from ...codegen.cuda.grid.plan import GridPlan
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.limits import Limits
from ...codegen.cuda.scan.cost import scan_step
from ...codegen.cuda.scan.plan import ScanPlan
from ...codegen.cuda.walk.cost import walk_step
from ...codegen.cuda.walk.plan import WalkPlan
from ...codegen.shape import Shape


class Span(NamedTuple):
    """One part of a step.

    Attributes:
        name: exchange, product, pointwise or memory.
        start: ns after the step's begin.
        length: ns that the part takes by itself.
        hidden: ns of it that other parts hide.
    """

    name: str
    start: int
    length: int
    hidden: int


class Timeline(NamedTuple):
    """The parts of a step of one kernel.

    Attributes:
        direction: forward or backward.
        total: estimated ns per step.
        spans: the parts, in the order of a step.
        start: estimated ns per call, before the first step.
        measured: measured ns per step, or None.
    """

    direction: str
    total: int
    spans: tuple[Span, ...]
    start: int
    measured: float | None = None

    @property
    def most(self) -> float:
        """The longer of the estimated and the measured time, and of the parts."""
        return max(self.total, self.measured or 0, *(s.start + s.length for s in self.spans))

    @property
    def longest(self) -> Span:
        """The part that takes the most time that nothing hides."""
        return max(self.spans, key=lambda span: span.length - span.hidden)


def timeline_of(cell: CellSpec, shape: Shape, limits: Limits, plan: KernelPlan) -> Timeline:
    """The parts of a step of one direction's plan, by the cost model."""
    estimate = plan.estimate
    inputs = CostInputs.of(cell, shape, limits, plan.tf32)
    traffic = round(inputs.traffic())
    step = _model(inputs, plan)
    alone_exchange, alone_product = estimate.exchange, estimate.product
    if step is not None:
        neither = step(exchange=False, product=False)
        alone_exchange = max(round(step(product=False) - neither), estimate.exchange)
        alone_product = max(round(step(exchange=False) - neither), estimate.product)
    # The steps of a resident kernel load and store while others compute. A step that is launched
    # by itself does not.
    apart = plan.steps_per_launch == "one"
    pointwise = estimate.pointwise - traffic * apart
    spans, now = [], 0
    for name, exposed, alone in (
        ("exchange", estimate.exchange, alone_exchange),
        ("product", estimate.product, alone_product),
        ("pointwise", pointwise, pointwise),
    ):
        spans.append(Span(name, now, alone, alone - exposed))
        now += exposed
    memory = Span("memory", now if apart else 0, traffic, 0 if apart else traffic)
    if not apart and traffic >= estimate.total:  # the step takes as long as its traffic
        memory = memory._replace(hidden=0)
        spans = [span._replace(hidden=span.length) for span in spans[:2]]
        spans.append(Span("pointwise", 0, 0, 0))
    return Timeline(plan.direction, estimate.total, (*spans, memory), estimate.start)


def _model(inputs: CostInputs, plan: KernelPlan) -> Step | None:
    """The cost model of a plan's kind; None for the kinds of other packages."""
    if isinstance(plan, BlockPlan):
        return block_step(inputs, plan)
    if isinstance(plan, ClusterPlan):
        return cluster_step(inputs, plan)
    if isinstance(plan, GridPlan):
        return grid_step(inputs, plan)
    if isinstance(plan, WalkPlan):
        return walk_step(inputs, plan)
    if isinstance(plan, ScanPlan):
        return scan_step(inputs, plan)
    if isinstance(plan, AlternatingPlan):
        return alternating_step(inputs, plan)
    return None
