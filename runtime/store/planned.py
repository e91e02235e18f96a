"""Plans of the model, searched for once and then read from the cache folder."""

from __future__ import annotations

from ...codegen.cuda.planner import plan_for
from ...codegen.plan import Plan
from .memo import remembered
from .plan_json import packed_plan, unpacked_plan
from .tuned import Asked


def searched(asked: Asked, variant: str = "auto") -> Plan:
    """Return the plan that `plan_for` finds."""
    return plan_for(
        asked.cell,
        asked.shape,
        asked.limits,
        variant,
        save=asked.save,
        tf32=asked.tf32,
        features=asked.features,
    )


def planned(asked: Asked, variant: str = "auto") -> Plan:
    """Return the plan of `searched`, read from disk if an earlier process has searched."""
    sizes = asked.shape, asked.limits, asked.save, asked.tf32, asked.features
    made_from = (asked.cell.fingerprint, *sizes, variant)
    return remembered(
        asked.cell.name,
        f"plan {made_from!r}",
        lambda: packed_plan(searched(asked, variant)),
        lambda found: unpacked_plan(found, asked.limits.arch),
    )
