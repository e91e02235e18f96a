"""Single steps of a module, prepared without tensors: made once for all steps of a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple, cast

import torch

from ....codegen.cuda.step.plan import StepPlan
from ....codegen.layout import layout_of
from ....codegen.shape import Direction
from ...call.call import Call
from ...call.facts import Counts, facts_of
from ...call.layer_call import LayerCall
from ...call.plain import check_memory
from ...call.tensors import SomeTensors
from ...store.tuned import planned
from ..choose import question_of
from ..driver.device import is_described
from ..launch import CallSizes
from ..launchers import launcher_of
from ..products.multiply import Gemm
from ..products.rearrange import CudaMoves, packed_or_none
from ..ready import check_counts
from ..spills import least_spilling
from .launcher import StepLauncher


def weights_by_gate(call: Call, weights: SomeTensors) -> SomeTensors:
    """Return weights of several heads, as `Form.of_step` gives them, as gate, head, unit."""
    with CudaMoves() as moves:
        flat = call.form.flat(weights, call.parts)
        return [None if weight is None else moves.packed(weight) for weight in flat]


def packed_places(tensors: Sequence[Any]) -> tuple[Sequence[Any], list[int]]:
    """Return tensors without gaps, aligned and with memory, copied if need be, and addresses."""
    kept = [packed_or_none(tensor) for tensor in tensors]
    places = [0 if tensor is None else tensor.data_ptr() for tensor in kept]
    if not all(places):
        for tensor in tensors:
            if tensor is not None:
                check_memory("a tensor of the step", tensor)
    return kept, places


class Recurrent(NamedTuple):
    """Matrices of R that one product multiplies: neighbours with one state, or one of all heads."""

    first: int
    matrices: int
    state: int


@dataclass(frozen=True, eq=False)
class StepReady:
    """Single step of a module's layers, besides its tensors.

    Attributes:
        dim: units per head.
        real: the dtype that the kernels compute in.
        products: of the states with R.
        pairs: matrices of R.
        sources: the numbers of the states that R multiplies, in the order of the kernels.
        one_gradient: whether the gradients of the gates with an input are those of the matrices'
            gates, in one order.
        summed_inputs: whether the gradients of the biases are sums of the first gradients of the
            gates with an input, and there are no params and no diagonal weights.
        only_tiled: fields of a backward that are only for kernels that multiply.
        plan: of one direction; one that spills has fewer rows per block.
        gemm: products of the library, on the current device.
    """

    batch: int
    heads: int
    dim: int
    dtype: torch.dtype
    real: torch.dtype
    counts: Counts
    products: tuple[Recurrent, ...]
    pairs: int
    sources: tuple[int, ...]
    one_gradient: bool
    summed_inputs: bool
    only_tiled: int
    plan: StepPlan
    launcher: StepLauncher
    gemm: Gemm


@lru_cache(maxsize=1024)
def step_ready(
    layer_call: LayerCall,
    direction: Direction,
    batch: int,
    size: int,
    heads: int,
    dim: int,
    dtype: torch.dtype,
    device: int,
) -> StepReady:
    """Prepare single steps of one size. The first of them compiles and loads their kernels."""
    check_counts(1, batch, heads)
    cell = layer_call.cell
    counts, layout = facts_of(cell).counts, layout_of(cell)
    sources = [state.number for state in layout.dense_sources.values]
    products, every = [], range(len(sources))
    # With several heads no two matrices of a head lie beside each other.
    for _, same in groupby(every, (sources if heads == 1 else every).__getitem__):
        first, *more = same
        products.append(Recurrent(first, 1 + len(more), sources[first]))
    biases, gates = counts.biases, [gate.number for gate in layout.dense_gates.values]
    summed = counts.sums[1:] == [0, 0] and biases == list(range(len(biases)))
    question = question_of(layer_call, batch, heads, dim, dtype, device)
    asked = replace(question.asked, features=size)
    plan = planned(asked, "step")
    if not is_described(device):
        plan, _ = least_spilling(asked, plan, direction)
    own, sizes = cast(StepPlan, plan.kernel(direction)), CallSizes(max(batch, 1), heads, dim)
    return StepReady(
        *(batch, heads, dim, dtype),
        torch.float64 if dtype == torch.float64 else torch.float32,
        *(counts, tuple(products), len(sources)),
        tuple([state.number for state in layout.sources.values]),
        one_gradient=gates == list(range(counts.inputs)),
        summed_inputs=summed and len(biases) <= counts.inputs,
        only_tiled=8 + counts.states,
        plan=own,
        launcher=cast(StepLauncher, launcher_of(cell, own, sizes, device)),
        gemm=Gemm(device, dtype, layer_call.tf32),
    )
