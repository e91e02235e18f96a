"""Plans that take the forward of one plan and the backward of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..plan import CudaPlan, FusedPlan
from ..shape import Direction, Dtype, Save
from .alternating.plan import AlternatingPlan

# Two plans in place of one must save more than this part of a step: they are two binaries to
# compile and to load, and estimates are good to some 10 %.
LEAST_GAIN = 0.05


@dataclass(frozen=True)
class MixedPlan:
    """The forward kernel of one fused plan and the backward kernel of another.

    What a forward leaves for a backward has one layout for all kinds of plans, so that each
    direction may run what is the fastest for it.

    Attributes:
        forward_plan: whose forward kernel runs.
        backward_plan: whose backward kernel runs.

    Raises:
        ValueError: the two are for other GPUs, dtypes or heads, or disagree in what is kept.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.cuda.mixed_plan import MixedPlan
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> from rnnc.codegen.shape import Shape
        >>> asked = (rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> plan = MixedPlan(plan_for(*asked, "block"), plan_for(*asked, "cluster"))
        >>> plan.variant, plan.of("backward").rows
        ('block+cluster', 8)
    """

    forward_plan: FusedPlan
    backward_plan: FusedPlan

    def __post_init__(self) -> None:
        for word in ("arch", "dtype", "head_dim", "tf32", "save"):
            pair = [getattr(p, word, None) for p in (self.forward_plan, self.backward_plan)]
            # A part that has no such attribute is no fused plan.
            if pair[0] is None or pair[0] != pair[1]:
                raise ValueError(f"plans that cannot be mixed: {word} {pair[0]} and {pair[1]}")

    def of(self, direction: Direction) -> FusedPlan:
        """The plan whose kernel runs in a direction."""
        return self.forward_plan if direction == "forward" else self.backward_plan

    @property
    def variant(self) -> str:
        """The kinds of both plans."""
        return f"{self.forward_plan.variant}+{self.backward_plan.variant}"

    @property
    def nanoseconds(self) -> tuple[int, int]:
        """Estimates of a step, forward and backward."""
        return self.forward_plan.nanoseconds[0], self.backward_plan.nanoseconds[1]

    @property
    def binding(self) -> str:
        """What a larger head would break in each plan."""
        plans = (self.forward_plan, self.backward_plan)
        return "; ".join(f"{plan.variant}: {plan.binding}" for plan in plans)

    @property
    def arch(self) -> str:
        """The GPU architecture, as the compiler names it."""
        return self.forward_plan.arch

    @property
    def dtype(self) -> Dtype:
        """Of all tensors."""
        return self.forward_plan.dtype

    @property
    def head_dim(self) -> int:
        """Units of a head."""
        return self.forward_plan.head_dim

    @property
    def tf32(self) -> bool:
        """Whether float32 products may round to tf32."""
        return self.forward_plan.tf32

    @property
    def save(self) -> Save:
        """Whether the forward keeps gates for the backward, or only states."""
        return self.forward_plan.save

    def __str__(self) -> str:
        first, second = self.forward_plan, self.backward_plan
        return (
            f"{self.variant} ({self.arch}, {self.dtype}, head dim {self.head_dim}):"
            f" the forward of one plan ({first.variant}) and the backward of another"
            f" ({second.variant})\n"
            f"  forward:  {first.mapping}; {first.described('forward')}\n"
            f"  backward: {second.mapping}; {second.described('backward')}\n"
            f"  keeps {self.save} for the backward; binds: {self.binding}"
        )


# What a call runs: `of` gives each direction's plan.
CallPlan = CudaPlan | MixedPlan


def cheapest(plans: Sequence[CudaPlan], costs: Sequence[tuple[float, float]]) -> CallPlan:
    """The plan that costs the least in both directions together, or two fused plans where that
    gains.

    An alternating plan is not mixed: it has buffers and graphs of its own.

    Args:
        plans: at least one; of those that cost the same the first is taken.
        costs: of each, forward and backward.
    """
    priced = list(zip(plans, costs, strict=True))
    best, cost = min(priced, key=lambda pair: sum(pair[1]))
    fused = [(p, c) for p, c in priced if not isinstance(p, AlternatingPlan)]
    if fused:
        forward_plan, (forward, _) = min(fused, key=lambda pair: pair[1][0])
        backward_plan, (_, backward) = min(fused, key=lambda pair: pair[1][1])
        if forward + backward < (1 - LEAST_GAIN) * sum(cost):
            return MixedPlan(forward_plan, backward_plan)
    return best
