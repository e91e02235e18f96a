"""Plans that a search, trials on a device or compilations chose, remembered on disk as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from importlib import metadata
from typing import Any

from ...codegen.cuda.alternating.plan import OwnProduct
from ...codegen.cuda.alternating.staged_plan import StagedAlternatingPlan
from ...codegen.cuda.cost.estimate import StepEstimate
from ...codegen.cuda.kinds import KINDS
from ...codegen.cuda.planner import plan_for
from ...codegen.cuda.step.gradient_tile import GradientTile
from ...codegen.cuda.step.tile import Tile
from ...codegen.plan import Plan
from ...codegen.request import PlanRequest, steps_like
from .files import file_name, keep, look_up
from .memo import package_digest, remembered


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


@dataclass(frozen=True)
class Asked(PlanRequest):
    """A request for the fastest plan, with the name of the answer's file.

    The answer serves any number of steps of a cell with dense matrices, and of others those that
    `steps_like` gives the same number.

    Attributes:
        instead_of: in words, the plan whose kernels spill registers, where another one is asked
            for in its place; else empty.
    """

    instead_of: str = ""

    @property
    def key(self) -> str:
        """Digest, the same in every process and another after an update of what is compiled."""
        steps = () if self.cell.dense_pairs else (steps_like(self.cell, self.shape.steps),)
        sizes = self.shape.heads, self.shape.head_dim, self.shape.batch, self.shape.dtype
        shape = (*sizes, *steps)
        versions = (package_digest(), _version("torch"), _version("cupy"))
        asked = (self.save, self.tf32, self.features, self.instead_of)
        parts = (self.cell.fingerprint, shape, *asked, repr(self.limits), versions)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    @property
    def file_name(self) -> str:
        """Name of the file that remembers the answer, in the cache folder."""
        return file_name(self.cell.name, self.key, "plan")


def remember(asked: Asked, plan: Plan) -> None:
    """Write down the plan that answers a request."""
    keep(asked.file_name, json.dumps(packed_plan(plan)).encode())
    if not asked.instead_of:  # else nobody has had another plan
        for listener in _LISTENERS:
            listener()


_LISTENERS: list[Callable[[], None]] = []


def on_remember(listener: Callable[[], None]) -> None:
    """Call a function whenever a plan is written down: a cache of plans is then stale."""
    _LISTENERS.append(listener)


def recall(asked: Asked) -> Plan | None:
    """Return the plan that an earlier process, or this one, has written down; None without it."""
    found = look_up(asked.file_name)
    if found is not None:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            return unpacked_plan(json.loads(found.content), asked.limits.arch)
    return None


def _version(package: str) -> str:
    """Return the version of an installed package; CuPy has another name for each CUDA."""
    names = [package, f"{package}-cuda12x", f"{package}-cuda13x"]
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""


def planned(asked: Asked, variant: str = "auto") -> Plan:
    """Return the plan that `plan_for` finds, read from disk if an earlier process has searched."""
    sizes = asked.shape, asked.limits
    more: dict[str, Any] = {"save": asked.save, "tf32": asked.tf32, "features": asked.features}
    made_from = asked.cell.fingerprint, *sizes, *more.values(), variant

    def searched() -> object:
        return packed_plan(plan_for(asked.cell, *sizes, variant, **more))

    def read(found: object) -> Plan:
        return unpacked_plan(found, asked.limits.arch)

    return remembered(asked.cell.name, f"plan {made_from!r}", searched, read)
