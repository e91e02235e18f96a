"""Choice of plans that all ranks share: that of rank 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from ...codegen.plan import Plan
from ..store.plan_json import packed_plan, unpacked_plan
from ..store.planned import planned
from ..store.tuned import Asked, recall, remember


def take_over_plans(asked: Sequence[Asked]) -> int:
    """Let all ranks of the default group run the plans that rank 0 runs; return how many changed.

    A trial on one machine may have found another plan than one on another machine. `asked` has the
    same order on each rank. A rank's plan is that of a trial, else the model's.
    """
    own: list[object] = (
        [packed_plan(_chosen(each)) for each in asked] if not dist.get_rank() else []
    )
    told = [own]
    dist.broadcast_object_list(told, src=0)
    replaced = 0
    for each, packed in zip(asked, told[0], strict=True):
        plan = unpacked_plan(packed, each.limits.arch)
        if packed_plan(_chosen(each)) != packed:
            remember(each, plan)
            replaced += 1
    return replaced


def _chosen(asked: Asked) -> Plan:
    return recall(asked) or planned(asked)
