"""The plan of a cell on a GPU, and the kinds of plans that were not taken, with the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ..cellspec.cell import CellSpec
from ..codegen.cuda.cost.fitted import constants_for, is_fitted
from ..codegen.cuda.kernel_plan import KernelPlan
from ..codegen.cuda.kinds import kinds_for
from ..codegen.cuda.limits import Limits
from ..codegen.cuda.planner import plan_for
from ..codegen.plan import Plan
from ..codegen.request import PlanRequest
from ..codegen.shape import DIRECTIONS, Direction, PlanError, Shape


class Candidate(NamedTuple):
    """A kind of plan for one direction.

    Attributes:
        kind: block, cluster, grid, walk, scan or alternating.
        nanoseconds: the estimated time per step, or None if there is no such plan.
        why: what binds, or which constraint refuses it, in a few words.
        details: all constraints that clash, line by line.
        fits: the nearest size that fits, if there is no such plan.
        taken: whether it is the plan's kind.
    """

    kind: str
    nanoseconds: int | None
    why: str
    details: str
    fits: str
    taken: bool


@dataclass(frozen=True)
class Choice:
    """A plan and its alternatives.

    Attributes:
        plan: the plan; None if there is none.
        error: why there is none.
        candidates: by direction.
        estimated_with: a remark on the constants of the estimates.
    """

    plan: Plan | None
    error: PlanError | None
    candidates: dict[Direction, tuple[Candidate, ...]]
    estimated_with: str

    @classmethod
    def of(cls, cell: CellSpec, shape: Shape, limits: Limits, variant: str = "auto") -> Choice:
        """The plan of a cell, or the reason why it has none.

        Args:
            cell: the cell.
            shape: sizes and dtype.
            limits: the GPU.
            variant: a kind of plan, or `"auto"`.
        """
        plan, error = None, None
        try:
            plan = plan_for(cell, shape, limits, variant)
        except PlanError as found:
            error = found
        try:
            request = PlanRequest(cell, shape, limits)
        except PlanError as found:
            refused = tuple(_refused(kind, found) for kind in kinds_for())
            return cls(None, found, dict.fromkeys(DIRECTIONS, refused), _constants(limits))
        candidates = {d: tuple(_candidates(request, d, plan)) for d in DIRECTIONS}
        return cls(plan, error, candidates, _constants(limits))


def _constants(limits: Limits) -> str:
    fitted_on = constants_for(limits).fitted_on
    if is_fitted(limits):
        return f"estimated; the model was fitted to measurements on an {fitted_on}"
    return f"estimated with constants that were fitted on an {fitted_on}: they rank plans"


def _candidates(request: PlanRequest, direction: Direction, plan: Plan | None) -> list[Candidate]:
    taken: KernelPlan | None = None
    if plan is not None:
        taken = plan.forward if direction == "forward" else plan.backward
    found = []
    for name, kind in kinds_for().items():
        own = taken is not None and taken.kind == name
        try:
            kind.check(request.cell)
            best = min(kind.candidates(request, direction), key=lambda p: p.cost)
        except PlanError as error:
            found.append(_refused(name, error)._replace(taken=own))
            continue
        shown = taken if own and taken is not None else best
        found.append(Candidate(name, shown.nanoseconds, shown.binding, "", "", own))
    return found


def _refused(kind: str, error: PlanError) -> Candidate:
    return Candidate(kind, None, *_reason(error), error.wanted, False)


_CONSTRAINT = re.compile(r"^  - ([^:]+):", re.MULTILINE)
_MOST_NAMES = 3


def _reason(error: PlanError) -> tuple[str, str]:
    """The constraints that clash by their names, and all lines of the message."""
    names = _CONSTRAINT.findall(error.found)
    if not names:
        return error.found, ""
    shown = ", ".join(names[-_MOST_NAMES:])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{shown}{more}", error.found
