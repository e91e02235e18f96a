"""Masks as the C++ kernels read them: `MaskArguments` of templates/cpu/lib/masks.h."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...cellspec.cell import CellSpec
from ..call.masks import Masks, strides_of_reset_value
from .arguments import Field


def reset_values(cell: CellSpec, masks: Masks | None, like: Tensor) -> list[Tensor]:
    """Return the value of each state after a reset, with adjacent units; none without masks."""
    if masks is None:
        return []
    if masks.reset_to is None:
        return [like.new_full(like.shape[1:], state.init) for state in cell.states]
    return [t if t.stride(-1) == 1 else t.contiguous() for t in masks.reset_to]


def mask_fields(
    masks: Masks | None, values: Sequence[Tensor], d_values: Sequence[Tensor] | None = None
) -> list[Field]:
    """Return the fields of `MaskArguments`, in its order; none without masks, which are contiguous.

    `values` come from `reset_values`. A backward adds their gradients to `d_values`, (B, N, D)
    each.
    """
    if masks is None:
        return []
    strides = [strides_of_reset_value(value) for value in values]
    none: list[Field] = [None] * len(values)
    return [
        masks.steps,
        *values,
        *[each[axis] for axis in range(3) for each in strides],
        *(d_values or none),
    ]
