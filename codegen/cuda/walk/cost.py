"""The estimated time per step of a walk plan's kernel.

    step    = the longest of chain, issue and traffic
    chain   = walk.chain, or walk.function where a function of the states is in the chain
                                                 (* walk.exact_function in float32 and float64)
    issue   = max(1, (min(blocks, 4) - 1) * walk.shared) * (walk.warp + units * item)
    item    = walk.item + operations * walk.operation     (* walk.exact in float32 and float64)
    traffic = of units, / walk.bandwidth

The chain is what a step waits for of the step before. `blocks` is the number of blocks per SM, a
warp each: of more than four, some have what they wait for. `operations` is the number of operations
in the cell's equations that see more than params.
"""

from __future__ import annotations

import math

from ....cellspec.expression.node import Node
from ....cellspec.expression.sharing import LOOPS
from ....cellspec.recurrence.sight import states_seen, symbols_that_see, unit_updates
from ...hoisting import hoisted
from ...shape import Direction
from ..cost.estimate import Step
from ..cost.inputs import CostInputs
from ..cost.quick import QUICK
from ..cost.units import unit_traffic
from ..mma import SCHEDULERS
from .plan import WalkPlan


def walk_step(inputs: CostInputs, plan: WalkPlan) -> Step:
    """The cost model of a walk plan's kernel.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel; its own estimate is not read.
    """
    walk, shape, direction = inputs.constants.walk, inputs.shape, plan.direction
    exact = shape.element_bytes > 2
    chain = walk.chain
    if _waits_for_function(inputs, direction):
        chain = walk.function * (walk.exact_function if exact else 1)
    operations = _operations(inputs, direction) * walk.operation.of(direction)
    item = walk.item + operations * (walk.exact.of(direction) if exact else 1)
    blocks = plan.blocks(shape.batch, shape.heads, shape.head_dim)
    on_one = math.ceil(blocks / inputs.limits.multiprocessors)
    others = min(on_one, SCHEDULERS) - 1
    shared = max(1, others * walk.shared.of(direction) * shape.fill)
    issue = shared * (walk.warp + plan.units * item)
    longest = max(chain, issue, unit_traffic(inputs, direction) / walk.bandwidth)

    def step(exchange: bool = True, product: bool = True) -> float:
        return longest

    return step


def walk_start(inputs: CostInputs, plan: WalkPlan) -> float:
    """The time before the first step.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernel.
    """
    return inputs.constants.walk.start.of(plan.direction)


def _operations(inputs: CostInputs, direction: Direction) -> int:
    """Those of a step: what follows from params alone is computed once."""
    cell = inputs.pointwise.cell
    params, constants = ([d.name for d in each] for each in (cell.params, cell.constants))
    return hoisted(inputs.pointwise.program(direction), params, constants).program.operations


def _waits_for_function(inputs: CostInputs, direction: Direction) -> bool:
    """Return True if a step's states wait for a function of the states before, but for quick ones.

    The gradients of a backward are sums of products, and its functions are of stored values.
    """
    cell = inputs.pointwise.cell
    if direction == "backward" or cell.recurrence.kind != "diagonal":
        return False
    seen = states_seen(unit_updates(cell), symbols_that_see(cell))
    return any(seen[node] and _takes_time(node) for node in seen)


def _takes_time(node: Node) -> bool:
    return node.op in LOOPS or (node.op == "call" and node.name not in QUICK)
