"""Choice between one row and padded rows for packed sequences: a scan or walk begins anew."""

from __future__ import annotations

from functools import lru_cache

from ...codegen.request import steps_like
from ...codegen.shape import PlanError
from ..store.tuned import on_remember, planned, recall
from .choose import PlanQuestion

_KINDS = {"scan", "walk"}  # of cells without dense matrices


def runs_as_one_row(question: PlanQuestion, total: int, steps: int) -> bool:
    """Return True if one row of all steps takes no longer than padded rows.

    Copies into padded rows are left out of the comparison, which favours these.

    Args:
        question: about the padded rows.
        total: steps of all sequences.
        steps: of the longest one.
    """
    cell, variant = question.cell, question.choice.variant
    if variant not in {"auto", *_KINDS}:
        return False
    row = _kind_and_cost(question._replace(batch=1, steps=steps_like(cell, total)))
    if row is None or not _KINDS.issuperset(row[0].split("+")):
        return False
    if variant == "scan":
        return True
    padded = _kind_and_cost(question._replace(steps=steps_like(cell, steps)))
    return padded is not None and row[1] * total <= padded[1] * steps


@lru_cache(maxsize=512)
def _kind_and_cost(question: PlanQuestion) -> tuple[str, float] | None:
    """Return the kind of a plan and its cost per step; None without a plan."""
    asked, variant = question.asked, question.choice.variant
    try:
        found = recall(asked) if variant == "auto" else None
        plan = found or planned(asked, variant)
    except PlanError:
        return None  # the call itself says why
    return plan.variant, float(sum(plan.costs))


on_remember(_kind_and_cost.cache_clear)
