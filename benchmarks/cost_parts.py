"""The parts of a plan's estimated time per step, as the benchmarks store them."""

from __future__ import annotations

from dataclasses import asdict

from rnnc.codegen.cuda.cost.estimate import StepEstimate
from rnnc.codegen.plan import Plan


def parts(plan: Plan) -> tuple[StepEstimate, StepEstimate]:
    """The estimates of the forward and the backward kernel."""
    return plan.forward.estimate, plan.backward.estimate


def named_parts(plan: Plan) -> dict[str, dict[str, float]]:
    """The same by direction and name, as JSON has it."""
    forward, backward = map(asdict, parts(plan))
    for found in (forward, backward):
        del found["start"]  # of a call, not of a step
    return {"forward": forward, "backward": backward}
