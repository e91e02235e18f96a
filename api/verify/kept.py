"""How much a training call keeps of a step."""

from __future__ import annotations

from ..codegen.derive import Pointwise


def kept_values(pointwise: Pointwise) -> int:
    """The values per step, batch row and unit that stay until the backward.

    They are the states, what the forward saves besides, and the inputs that the call drew.

    Args:
        pointwise: of the cell.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> from rnnc.verify.kept import kept_values
        >>> kept_values(derive(rnnc.cells.elman))
        1
    """
    cell = pointwise.cell
    drawn = sum(draw.per == "step" for draw in cell.drawn.values())
    return len(pointwise.saved) + len(cell.states) + drawn
