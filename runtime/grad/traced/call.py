"""Calls of a module by one operator: plain values and torch operations that a compiler traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...call.call import text_in_graph
from ...call.forms import flat_weights
from ...call.marks import constant_in_graphs
from ...call.rows_form import RowsForm
from ...call.settings import Settings
from ...call.tensors import States
from ...targets.registry import TARGETS
from .operators import rnn_op
from .schemas import Options


def operator_weights(
    settings: Settings, weights: Sequence[Tensor | None]
) -> Sequence[Tensor | None]:
    """Return what the operator `rnnc::rnn` takes: rows as they are, or weights gate by gate."""
    if isinstance(settings.form, RowsForm):
        return weights
    return flat_weights(settings.form, weights, settings.layers * len(settings.choices))


def run_operator(
    settings: Settings,
    dropout: float,
    target: str,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    needs_grad: bool,
) -> tuple[Tensor, States]:
    """Run all layers of a module by the operator `rnnc::rnn`, on x (T, B, input).

    The masks of dropout are drawn here: a compiler draws its own random numbers. `states` are
    (layers * directions, B, hidden) each before the first step; empty for each state's `init`.
    `weights` are as `operator_weights` gives them.
    """
    cell, layers, both, heads, dim, *_ = settings
    variant, save, precision, *_ = settings.choice
    steps, batch, _ = x.shape
    directions, hidden = len(settings.choices), heads * dim
    if not states and _is_exported():
        # torch's library for graphs compiled ahead of time hands on an empty list as None.
        shape = (layers * directions, batch, hidden)
        states = [x.new_full(shape, state.init) for state in cell.states]
    masks = None
    if dropout and layers > 1:
        # What is drawn depends on the sizes alone.
        like = x.new_empty(steps, batch, directions * hidden)
        drawn = [torch.native_dropout(like, dropout, True)[1] for _ in range(layers - 1)]
        masks = torch.stack(drawn)
    if torch.compiler.is_compiling() and not _is_exported():
        # A constant of the graph: the compiler guards the flag, and traces again where it changes.
        # So the backward does what its forward did, also where CUDA replays both.
        precision = "tf32" if TARGETS[target].rounds(x.dtype, precision) else "ieee"
    options = Options(
        text_in_graph(cell.text) if torch.compiler.is_compiling() else cell.text,
        [weight is not None for weight in weights],
        *(layers, both, heads, dim, dropout),
        *(variant, save, precision, settings.order),
        rows=isinstance(settings.form, RowsForm),
    )
    if both and torch.compiler.is_compiling() and not _is_exported() and _is_static(batch):
        # Under a batch of any size, each direction is a call of its own. Plain values alone are
        # asked about: what is dropped does not matter, and may be a symbol.
        asked = options._replace(given=(), dropout=0.0)
        joint = _joins(tuple(asked), target, needs_grad, x.dtype, x.device, batch)
        options = options._replace(joint=joint)
    present = [weight for weight in weights if weight is not None]
    y, *results = rnn_op(x, list(states), present, masks, needs_grad, *options.passed)
    return y, tuple(results[: len(cell.states)])


@constant_in_graphs
def _is_exported() -> bool:
    """Return True if `torch.export` traces, as `torch.compile` claims to do before torch 2.13."""
    return torch.compiler.is_exporting()


def _is_static(size: int) -> bool:
    """Return True if a graph holds for this size alone."""
    # Imports sympy, which takes half a second, and which whatever traces has imported.
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return has_static_value(size)


@constant_in_graphs
def _joins(
    options: tuple[Any, ...],
    target: str,
    needs_grad: bool,
    dtype: torch.dtype,
    device: torch.device,
    batch: int,
) -> bool:
    """Return True if one call of both directions is better than a call of each."""
    runs, asked = TARGETS[target], Options(*options)
    like = torch.empty(0, dtype=dtype, device=device)
    call = asked.stack(like, needs_grad).calls[0]
    return runs.joins(call, like, batch, asked.heads, asked.dim)
