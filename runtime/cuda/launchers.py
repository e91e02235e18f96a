"""Launchers of the kinds of plans, in a registry that other packages can add to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.cuda.kinds import variants
from ...codegen.shape import PlanError
from .alternating.run import AlternatingLauncher
from .launch import CallSizes, Launcher
from .resident import GridLauncher, ScanLauncher, TiledLauncher, WalkLauncher
from .step.launcher import StepLauncher

# Makes the launcher of a plan, of the kind that it is registered for, on the device of a number.
MakeLauncher = Callable[[CellSpec, Any, CallSizes, int], Launcher]

LAUNCHERS: dict[str, MakeLauncher] = {
    "block": TiledLauncher,
    "cluster": TiledLauncher,
    "grid": GridLauncher,
    "walk": WalkLauncher,
    "scan": ScanLauncher,
    "alternating": AlternatingLauncher,
    "step": StepLauncher,
}


def register_launcher(kind: str, make: MakeLauncher) -> None:
    """Add the launcher of a kind of plan that `codegen.cuda.kinds.register_kind` added.

    Raises:
        ValueError: the kind has a launcher.
    """
    if kind in LAUNCHERS:
        raise ValueError(f"there is a launcher for the kind {kind!r}")
    LAUNCHERS[kind] = make


def unregister_launcher(kind: str) -> None:
    """Remove a launcher that `register_launcher` added.

    Raises:
        KeyError: the kind has no launcher.
    """
    del LAUNCHERS[kind]


def launcher_of(cell: CellSpec, plan: KernelPlan, sizes: CallSizes, device: int) -> Launcher:
    """Return the launcher of a plan of one direction; a `PlanError` if its kind has none."""
    if plan.kind not in LAUNCHERS:
        raise PlanError(
            f"{plan.kind} plan of {cell.name}",
            "a kind of plan without a launcher",
            f"one of {', '.join(kind for kind in LAUNCHERS if kind in variants())}",
            f"register_launcher({plan.kind!r}, …) of rnnc.runtime.cuda.launchers",
        )
    return LAUNCHERS[plan.kind](cell, plan, sizes, device)
