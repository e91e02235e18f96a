"""The least time of a cell without R: what its tensors weigh, or the functions that it needs."""

from __future__ import annotations

import torch

from ...cellspec.cell import CellSpec
from ...cellspec.expression.node import Node, ordered
from ...codegen.cuda.cost.quick import QUICK
from ...codegen.derive import Pointwise, derive
from ...codegen.hoisting import hoisted
from ...codegen.layout import layout_of, states_read_before
from ...codegen.program import values_of
from ...codegen.shape import DIRECTIONS, ELEMENT_BYTES, Direction, Dtype
from ...runtime.cuda.driver.device import device_limits
from ..rows import Pair, Row
from ..timing import median_time

# The functions of the special units of an SM per second: 16 per cycle at 1.75 GHz.
_FUNCTIONS = 16 * 1.75e9
_COPIED = 2**29  # bytes, more than any cache


def copy_speed(device: str, size: int = _COPIED) -> float:
    """Bytes per second that a copy reads and writes, both counted.

    Args:
        device: "cpu" or "cuda".
        size: bytes that are copied.
    """
    source = torch.empty(size, dtype=torch.uint8, device=device)
    to = torch.empty_like(source)
    return 2 * size / (1e-3 * median_time(lambda: to.copy_(source), device, 9))


def floor_of(cell: CellSpec, row: Row, dtype: Dtype, speed: float, device: str) -> Pair | None:
    """The least milliseconds of a forward, and of a forward with its backward.

    A forward reads gates and `Input`s and writes states. A backward reads gates, `Input`s, states
    that it needs and the gradient of one state, and writes gradients of gates and `Input`s.

    Args:
        cell: the cell.
        row: the sizes.
        dtype: of the tensors.
        speed: of a copy, in bytes per second.
        device: "cpu" or "cuda"; the GPU says how many special functions it computes.

    Returns:
        None for a cell with R, whose products take their own time.

    Example:
        >>> import rnnc
        >>> from rnnc.bench.rows import Row
        >>> from rnnc.bench.suites.floor import floor_of
        >>> row = Row("hgrn", 4, 128, 16, 16384)
        >>> pair = floor_of(rnnc.cells.hgrn, row, "bfloat16", 4.18e12, "cpu")
        >>> print(f"{pair.forward:.3f} / {pair.forward_backward:.3f}")
        0.193 / 0.578
    """
    if cell.recurrence.kind == "dense":
        return None
    pointwise, each = derive(cell, activations=False), ELEMENT_BYTES[dtype]
    numbers = row.batch * row.steps * row.hidden
    rate = _FUNCTIONS * _multiprocessors(device)
    forward, backward = (
        numbers * max(each * _values(pointwise, d) / speed, _functions(pointwise, d) / rate)
        for d in DIRECTIONS
    )
    return Pair(1e3 * forward, 1e3 * (forward + backward))


def _multiprocessors(device: str) -> float:
    if device == "cpu":
        return float("inf")
    return device_limits(torch.cuda.current_device()).multiprocessors


def _values(pointwise: Pointwise, direction: Direction) -> int:
    """The numbers of a step of a unit that a direction must read and write."""
    layout = layout_of(pointwise.cell)
    given = len(layout.input_gates) + len(layout.unweighted)
    if direction == "forward":
        return given + len(layout.states)
    changed = len(layout.input_gates) + sum(i.has_gradient for i in pointwise.cell.inputs)
    return given + changed + sum(states_read_before(pointwise)) + 1


def _functions(pointwise: Pointwise, direction: Direction) -> int:
    """The special functions of a step of a unit; those of params alone are computed once."""
    cell = pointwise.cell
    params, constants = ([d.name for d in each] for each in (cell.params, cell.constants))
    program = hoisted(pointwise.program(direction), params, constants).program
    return sum(map(_takes_time, ordered(values_of(program.statements))))


def _takes_time(node: Node) -> bool:
    return node.op == "/" or (node.op == "call" and node.name not in QUICK)
