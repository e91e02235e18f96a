"""The CPU kernels, called on torch tensors: of a direction of a layer, or of all layers at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import CDLL

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ..call.call import Call
from ..call.facts import facts_of
from ..call.layer_call import LayerCall, saving_again
from ..call.masks import read_states
from ..call.requests import LayerBackward
from ..call.tensors import Forward, Gradients, Saved, ScanInputs, SomeTensors, States
from ..program.ops import Field
from .arguments import mask_fields, reset_values, run, unweighted_fields
from .compile import cpu_library, plan_of
from .products import StateGradients, add_gradients_of_called, recurrent_gradient, recurrent_product
from .tasks import multiplies_features, parted_pairs, sizes_of


def forward_of_features(
    layer_call: LayerCall, x: Tensor, weight: Tensor, inputs: ScanInputs
) -> Forward:
    """Run the forward by a kernel that makes the products of the input, without a backward."""
    return forward(layer_call, inputs, features=(x, weight))


def forward(
    layer_call: LayerCall,
    inputs: ScanInputs,
    donated: bool = False,
    features: tuple[Tensor, Tensor] | None = None,
) -> Forward:
    """Run the forward of a call.

    Args:
        inputs: in a dtype of kernels; wx may have any strides, and has no gates with `features`.
        donated: not used.
        features: x (T, B, input) and W (Gx, N, D, input), if the kernel makes their product.
    """
    cell, keeps, stored = layer_call.cell, layer_call.saves_gates, layer_call.stored
    facts, wx, new = facts_of(cell), inputs.wx, inputs.wx.new_empty
    counts = facts.counts
    batch, steps, heads, dim, _ = wx.shape
    masks, plane = inputs.masks, batch * heads * dim
    # A state that is not returned, and that no matrix reads, needs the memory of one step.
    kept = [
        wanted or keeps or masks is not None or state in counts.sources
        for state, wanted in enumerate(stored)
    ]
    last = inputs.to.last if inputs.to else [new(batch, heads, dim) for _ in stored]
    states = [
        new(steps, batch, heads, dim) if own else end for own, end in zip(kept, last, strict=True)
    ]
    saved = new(steps if keeps else 0, batch, heads, *facts.kept_shape(dim))
    R_diag, b = _packed(inputs.R_diag), _packed(inputs.b)
    R, R_strides = _matrices(inputs.R, heads, dim)
    params = _stacked(inputs.params)
    initial_states = [s.contiguous() for s in inputs.initial_states]
    values = reset_values(cell, masks, last[0])
    product, strides = None, (0, 0, 0)
    if R is not None and masks is None and torch_multiplies(cell, steps, batch, R):
        of_one_layer = [state.view(1, batch, heads * dim) for state in initial_states]
        product, strides = recurrent_product(cell, R, of_one_layer, 0)
    library = _library(layer_call, wx.dtype)
    if wx.numel() or last[0].numel():
        run(
            library.rnnc_forward,
            *sizes_of(steps, batch, heads, dim, 0 if product is not None else parted_pairs(cell)),
            *[wx.stride(axis) for axis in _STRIDE_ORDER],
            wx if features is None else None,
            *_feature_fields(features),
            R if product is None else None,
            *R_strides,
            *(product, *strides),
            *(R_diag, b, params),
            *(*initial_states, *states),
            *[plane if own else 0 for own in kept],
            *last,
            saved if keeps else None,
            *unweighted_fields(inputs.unweighted),
            *mask_fields(masks, values),
        )
    if not all(stored):
        states = [
            s if wanted else new(0, batch, heads, dim)
            for s, wanted in zip(states, stored, strict=True)
        ]
    return Forward(states, last, saved)


# The struct has the strides of time, batch row, head, unit and gate, in this order.
_STRIDE_ORDER = (1, 0, 2, 3, 4)


def backward(layer_call: LayerCall, backward: LayerBackward) -> Gradients:
    """Run all steps backwards, then the sums over time."""
    cell, reverse, saved = layer_call.cell, layer_call.choice.reverse, backward.saved
    facts = facts_of(cell)
    counts = facts.counts
    values = _kept_again(layer_call, saved) if saved.again else saved.saved.contiguous()
    states = [s.contiguous() for s in saved.states]
    initial_states = [s.contiguous() for s in saved.initial_states]
    steps, (batch, heads, dim) = len(values), initial_states[0].shape
    R, R_strides = _matrices(saved.R, heads, dim)
    R_diag, params = _packed(saved.R_diag), _stacked(saved.params)
    masks, reset_to = saved.masks, reset_values(cell, saved.masks, initial_states[0])
    outside = R is not None and masks is None and torch_multiplies(cell, steps, batch, R)
    sizes = sizes_of(steps, batch, heads, dim, 0 if outside else parted_pairs(cell))
    tiles = math.ceil(batch / sizes.tile_rows)
    new, plane = values.new_empty, (heads, dim)
    d_gates = new(steps, batch, heads, counts.gradients, dim)
    each = () if tiles == 1 else (tiles,)
    d_bias = new(*each, counts.gradients, *plane)
    d_params = new(*each, counts.params, *plane)
    d_diagonal = new(*each, counts.diagonal, *plane)
    d_initial_states = [new(batch, heads, dim) for _ in initial_states]
    d_reset_to = None
    if masks is not None and masks.learned:
        d_reset_to = [new(batch, heads, dim).zero_() for _ in initial_states]
    seeds = [[_packed(t) for t in ts] for ts in (backward.d_states, backward.d_last)]
    if d_initial_states[0].numel():
        run(
            _library(layer_call, values.dtype).rnnc_backward,
            *sizes,
            None if outside else R,
            *R_strides,
            *(R_diag, params),
            *(*initial_states, *states, values),
            *(*seeds[0], *seeds[1], d_gates),
            *(*d_initial_states, d_bias, d_params, d_diagonal),
            *unweighted_fields(saved.unweighted),
            *mask_fields(masks, reset_to, d_reset_to),
        )
    d_states_before: Sequence[Tensor] = d_initial_states
    if outside:
        assert R is not None
        d_states_before = StateGradients(cell, R, d_gates[0], d_initial_states)
    # (T, B, N, Gx, D)
    d_wx, d_others = d_gates, None
    if counts.inputs != counts.gradients:
        d_wx = d_gates[:, :, :, : counts.inputs]
        d_others = d_gates[:, :, :, counts.inputs :].permute(1, 0, 2, 4, 3)
    if tiles != 1:
        d_bias, d_params, d_diagonal = d_bias.sum(0), d_params.sum(0), d_diagonal.sum(0)
    d_R = new(0)
    if not saved.apart:
        read, zero = (states, initial_states), saved.known_zero
        if masks is not None:
            read = read_states(cell, masks, *read, reverse)
        d_R = recurrent_gradient(cell, d_gates, *read, reverse, zero)
        add_gradients_of_called(facts.called, d_R, d_gates, values)
    return Gradients(
        d_wx=d_wx.permute(1, 0, 2, 4, 3),
        d_R=d_R,
        d_b=d_bias if counts.biases_of_all else d_bias[counts.biases],
        d_initial_states=d_states_before,
        d_R_diag=d_diagonal,
        d_params=d_params,
        d_others=d_others,
        d_reset_to=d_reset_to,
    )


def _library(layer_call: LayerCall, dtype: torch.dtype) -> CDLL:
    plan = plan_of(dtype, layer_call.choice.reverse, masked=layer_call.masked)
    return cpu_library(layer_call.cell, plan)


def _kept_again(layer_call: LayerCall, saved: Saved) -> Tensor:
    """Run the forward's kernel again for the values that it keeps, which so have the same bits."""
    batch, steps, heads, dim, _ = saved.wx.shape
    facts = facts_of(layer_call.cell)
    if not facts.counts.saved and not facts.statistics:
        return saved.wx.new_empty(steps, batch, heads, 0, dim)
    return forward(saving_again(layer_call), saved).saved


# Multiplications below which a call of torch takes longer than a product.
_SMALL = 2**16


def torch_multiplies(cell: CellSpec, steps: int, batch: int, R: Tensor) -> bool:
    """Return True if torch multiplies the recurrent matrices, in single steps of large products."""
    return steps == 1 and batch * R.numel() > _SMALL and not cell.has_stages


def _matrices(R: Tensor | None, heads: int, dim: int) -> tuple[Tensor | None, tuple[int, int]]:
    """Return R, of which one head may be rows, as contiguous matrices, and their strides."""
    if R is None:
        return None, (0, 0)
    if heads == 1:
        return R.contiguous().view(-1, 1, dim, dim), (dim * dim, 0)
    pair, head, *matrix = R.stride()
    if matrix == [dim, 1]:
        return R, (pair, head)
    return R.contiguous(), (heads * dim * dim, dim * dim)


def _feature_fields(features: tuple[Tensor, Tensor] | None) -> tuple[Field, ...]:
    """Return the fields of `ForwardArguments` from x to W_strides."""
    if features is None:
        return (0,) * 7
    x, W = features
    x = x if x.stride(2) == 1 else x.contiguous()
    W = W if W.stride()[2:] == (W.shape[3], 1) else W.contiguous()
    return x, *x.stride()[:2], x.shape[2], W, *W.stride()[:2]


def _packed(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _stacked(tensors: Sequence[Tensor]) -> Tensor | None:
    return torch.stack(tuple(tensors)) if tensors else None


def run_sequence(
    call: Call, x: Tensor, states: Sequence[Tensor], parameters: SomeTensors
) -> tuple[Tensor, States] | None:
    """Run all layers without gradients; None if the caller has to run each layer by itself."""
    steps, batch, features = x.shape
    layers, heads, dim = call.layers, call.heads, call.dim
    if len(call.directions) > 1 or (call.dropout and layers > 1) or not batch:
        return None
    layer_call, hidden = call.directions[0], heads * dim
    counts = facts_of(layer_call.cell).counts
    if not multiplies_features(steps, batch, counts.inputs * hidden * max(features, hidden)):
        return None
    library = _library(layer_call, x.dtype)
    x = x if x.stride(2) == 1 else x.contiguous()
    weights = call.flat_weights(parameters)
    flat = [w if w is None or w.is_contiguous() else w.contiguous() for w in weights]
    states = [state.contiguous() for state in states]
    y = x.new_empty(steps, batch, hidden)
    values = call.initial_values
    last = tuple([x.new_empty(layers, batch, hidden) for _ in values])
    given: Sequence[Field] = states or [None] * len(values)
    sizes = sizes_of(steps, batch, heads, dim, parted_pairs(layer_call.cell))
    own: list[Field] = [layers, features, x, *x.stride()[:2], *given, *last, y, *values, *flat]
    run(library.rnnc_layers, *sizes, *own)
    return y, last
