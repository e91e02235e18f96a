"""The estimated time per step of an alternating plan.

A call has a start, `library.start` or `fused.start`, which its steps share.

With the matrix library's product, of one kernel or, with stages, of several:

    exchange  = kernels * launches * library.launch
    product   = kernels * library.product + row_blocks * bytes of R / library.l2_bandwidth
    pointwise = traffic

With fused steps, where the next step's blocks start before a step ends (from compute capability 9.0
on), the longer of two paths counts, then `exchange`, `chain / 2` and the traffic are added:

    latency   = fused.overlapped_hop + fused.chain + waves * factors / fused.block_bandwidth
    bandwidth = fused.overlapped_hop + moved / fused.l2_bandwidth

and where they start after it:

    step      = fused.hop + fused.chain + max(moved / fused.l2_bandwidth,
                                              waves * (weights + factors) / fused.block_bandwidth)

`weights` and `factors` are the bytes of R and of the states, or gradients of gates, that a block
reads, `moved` those of all blocks. Hops and `fused.exchange` are the exchange, reads the product,
`fused.chain` and the traffic the pointwise part. Only backward kernels have the exchange within
clusters and half a chain more.
"""

from __future__ import annotations

import math

from ...layout import layout_of
from ..cost.estimate import Step
from ..cost.inputs import CostInputs
from ..mma import TILE_N
from .plan import AlternatingPlan, OwnProduct

_LIBRARY_ROWS = 64  # batch rows for which the matrix library reads R once


def alternating_step(inputs: CostInputs, plan: AlternatingPlan) -> Step:
    """The cost model of an alternating plan's kernels.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernels; its own estimate is not read.
    """
    if plan.own:
        return _fused_step(inputs, plan, plan.own)
    return _library_step(inputs, plan)


def alternating_start(inputs: CostInputs, plan: AlternatingPlan) -> float:
    """The time before the first step.

    Args:
        inputs: of the cell, the shape and the GPU.
        plan: of the kernels.
    """
    constants = inputs.constants.fused if plan.own else inputs.constants.library
    return constants.start.of(plan.direction)


def _library_step(inputs: CostInputs, plan: AlternatingPlan) -> Step:
    """A product by the matrix library and a pointwise kernel, or several of both."""
    library, shape = inputs.constants.library, inputs.shape
    pairs = len(inputs.pointwise.cell.dense_pairs)
    weights = pairs * shape.heads * shape.head_dim**2 * shape.element_bytes
    reads = math.ceil(shape.batch / _LIBRARY_ROWS)
    kernels = len(plan.step_names)
    multiply = kernels * library.product + reads * weights / library.l2_bandwidth if pairs else 0
    launches = kernels * (1.0 if plan.direction == "forward" else 1.5)
    traffic = inputs.traffic()

    def step(exchange: bool = True, product: bool = True) -> float:
        return exchange * launches * library.launch + product * multiply + traffic

    return step


def _fused_step(inputs: CostInputs, plan: AlternatingPlan, own: OwnProduct) -> Step:
    """One kernel that multiplies and computes the equations, or one for each product of a step."""
    shape, fused, forward = inputs.shape, inputs.constants.fused, plan.direction == "forward"
    layout = layout_of(inputs.pointwise.cell)
    kernels, pairs, sources = len(plan.step_names), len(layout.pair_gates), len(layout.sources)
    blocks = shape.heads * math.ceil(shape.head_dim / TILE_N) * math.ceil(shape.batch / own.rows)
    waves = math.ceil(blocks / inputs.limits.multiprocessors)
    row = shape.head_dim * shape.element_bytes
    weights = TILE_N * pairs * row
    factors = own.rows * (sources * row if forward else pairs * row / own.split)
    all_reads = blocks * (weights + factors) / fused.l2_bandwidth
    block_reads = waves * (weights + factors) / fused.block_bandwidth
    factor_reads = waves * factors / fused.block_bandwidth
    hop = fused.overlapped_hop if own.overlapped else fused.hop
    traffic = inputs.traffic()

    def step(exchange: bool = True, product: bool = True) -> float:
        if own.overlapped:
            # A step waits for the states of the step before; R is loaded meanwhile.
            latency = exchange * hop + fused.chain + product * factor_reads
            taken = max(latency, exchange * hop + product * all_reads)
        else:
            taken = exchange * hop + fused.chain + product * max(all_reads, block_reads)
        if not forward:
            taken += exchange * fused.exchange * (own.split > 1) + fused.chain / 2
        return kernels * taken + traffic

    return step
