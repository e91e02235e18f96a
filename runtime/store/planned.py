"""The model's plan of a size, searched for once and then read from the cache folder."""

from __future__ import annotations

from ...codegen.cuda.planner import plan_for
from ...codegen.plan import Plan
from .memo import remembered
from .plan_json import packed_plan, unpacked_plan
from .tuned import Asked


def searched(asked: Asked, variant: str = "auto") -> Plan:
    """What `plan_for` gives.

    Args:
        asked: what the plan is for.
        variant: as for `plan_for`.

    Raises:
        PlanError: no plan of that variant exists.
    """
    return plan_for(
        asked.cell, asked.shape, asked.limits, variant, save=asked.save, tf32=asked.tf32
    )


def planned(asked: Asked, variant: str = "auto") -> Plan:
    """The same, read where an earlier process has searched.

    Args:
        asked: what the plan is for.
        variant: as for `plan_for`.

    Raises:
        PlanError: no plan of that variant exists.
    """
    made_from = (asked.cell.fingerprint, asked.shape, asked.limits, asked.save, asked.tf32, variant)
    return remembered(
        asked.cell.name,
        f"plan {made_from!r}",
        lambda: packed_plan(searched(asked, variant)),
        lambda found: unpacked_plan(found, asked.limits.arch),
    )
