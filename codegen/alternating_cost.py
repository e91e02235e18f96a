"""What a step of an alternating plan costs in ns."""

from __future__ import annotations

import math

from .cost import H200, traffic_nanoseconds
from .derive import Pointwise
from .shape import Shape


def alternating_nanoseconds(pointwise: Pointwise, shape: Shape) -> tuple[int, int]:
    """Estimates of a step of an alternating plan, forward and backward, in ns.

    Args:
        pointwise: of the cell.
        shape: all of it matters.
    """
    pairs = len(pointwise.cell.dense_pairs)
    weights = pairs * shape.heads * shape.head_dim**2 * shape.element_bytes
    rows = math.ceil(shape.batch / 64)
    product = H200.product + rows * weights / H200.library_bandwidth if pairs else 0
    traffic = traffic_nanoseconds(pointwise, shape)
    return round(H200.launch + product + traffic), round(1.5 * H200.launch + product + traffic)
