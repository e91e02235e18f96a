"""Plans of a trial or a search as JSON, for later processes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from ...codegen.cuda.alternating.plan import OwnProduct
from ...codegen.cuda.alternating.staged_plan import StagedAlternatingPlan
from ...codegen.cuda.cost.estimate import StepEstimate
from ...codegen.cuda.kinds import KINDS
from ...codegen.cuda.step.gradient_tile import GradientTile
from ...codegen.cuda.step.tile import Tile
from ...codegen.plan import Plan


def unpacked_plan(value: Any, arch: str) -> Plan:
    """Return the plan that was packed; a ValueError or the like if it is none of the `arch`."""
    plan = _unpacked(value)
    if not isinstance(plan, Plan) or plan.arch != arch:
        raise ValueError(f"no plan for {arch}: {value!r}")
    return plan


def packed_plan(value: Any) -> Any:
    """Return a plan, or a part of one, as JSON has it: its parts know their types."""
    if is_dataclass(value):
        parts = {field.name: packed_plan(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__, **parts}
    return [packed_plan(v) for v in value] if isinstance(value, tuple) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {name: _unpacked(part) for name, part in value.items() if name != "type"}
        return _type(value["type"])(**parts)
    return tuple(map(_unpacked, value)) if isinstance(value, list) else value


def _type(name: str) -> Any:
    """Return the type of a plan or of its part, by the word that stands for it in a file."""
    parts = (StepEstimate, OwnProduct, Tile, GradientTile)
    plans: list[type] = [StagedAlternatingPlan, *(kind.plan for kind in KINDS.values())]
    types = (Plan, *parts, *plans)
    return {each.__name__: each for each in types}[name]
