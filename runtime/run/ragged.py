"""Lengths and resets of a module's call, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ..call.ragged import Ragged
from ..check.masks import check_lengths, check_reset, check_reset_value, no_reset_error
from ..check.scan import check_count


def ragged_of(
    names: Sequence[str],
    sizes: tuple[int, Sequence[int]],
    x: Tensor,
    batch_first: bool,
    lengths: Any,
    reset: Any,
    reset_to: Any,
) -> Ragged | None:
    """Return the lengths and resets of a module's call over time, checked; None without any.

    Args:
        sizes: layers times directions, and the features of each state.
        x: as the caller gives it, checked.
        lengths: (B,), or () for one sequence.
        reset: in x's layout without its last axis.
        reset_to: for each state (layers * directions, hidden), the same with B or, for what is
            stored for each step, with x's first axes in between: (L, B, T, hidden) where x is
            (B, T, input).
    """
    if lengths is None and reset is None and reset_to is None:
        return None
    parts, widths = sizes
    outer, single = tuple(x.shape[:-1]), x.ndim == 2
    batch, steps = (1, *outer) if single else outer if batch_first else outer[::-1]
    if lengths is not None:
        check_lengths(lengths, batch, steps, () if single else (batch,))
        lengths = lengths.view(batch)
    if reset is not None:
        axes = "(T,)" if single else "(B, T)" if batch_first else "(T, B)"
        check_reset(reset, outer, axes, "x", x)
        reset = reset.unsqueeze(1) if single else reset.t() if batch_first else reset
    if reset_to is not None:
        if reset is None:
            raise no_reset_error()
        shapes: dict[str, tuple[int, ...]] = {"L": (parts,)}
        if not single:
            shapes["L, B"] = parts, batch
        over_time = "T" if single else "B, T" if batch_first else "T, B"
        shapes[f"L, {over_time}"] = (parts, *outer)
        _check_values(names, reset_to, shapes, widths, x)
        if single:
            reset_to = [v.unsqueeze(2) if v.ndim == 3 else v for v in reset_to]
        elif batch_first:
            reset_to = [v.transpose(1, 2) if v.ndim == 4 else v for v in reset_to]
    return Ragged(lengths, reset, reset_to)


def reset_of_step(
    names: Sequence[str],
    sizes: tuple[int, Sequence[int]],
    x: Tensor,
    reset: Any,
    reset_to: Any,
) -> Ragged:
    """Return the resets before a single step, checked; raise a `TensorError` if one does not fit.

    `sizes` are layers, and the features of each state. x is (B, input) and `reset` (B,), or (input)
    and () for one sequence. `reset_to` is (layers, hidden) or (layers, B, hidden) for each state.
    """
    layers, widths = sizes
    outer = tuple(x.shape[:-1])
    if reset is None:
        raise no_reset_error()
    check_reset(reset, outer, "(B,)" if outer else "()", "x", x)
    if reset_to is not None:
        shapes = {"L": (layers,)} | ({"L, B": (layers, *outer)} if outer else {})
        _check_values(names, reset_to, shapes, widths, x)
    return Ragged(None, reset, reset_to)


def _check_values(
    names: Sequence[str],
    values: Any,
    outer: Mapping[str, tuple[int, ...]],
    widths: Sequence[int],
    x: Tensor,
) -> None:
    """Check reset values of one of the shapes `outer`, by the names of axes, with features last."""
    check_count(values, names, "reset_to")
    axes = ", ".join(f"({own}, features)" for own in outer) + " with L = layers * directions"
    for name, value, width in zip(names, values, widths, strict=True):
        shapes = [(*shape, width) for shape in outer.values()]
        check_reset_value(f"reset_to[{name}]", value, shapes, axes, x)
