"""Single steps of a module, prepared without tensors: made once for all steps of a size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple, cast

import torch

from ....codegen.cuda.step.plan import StepPlan
from ....codegen.layout import layout_of
from ....codegen.plan import Plan
from ....codegen.shape import Direction
from ...call.facts import Counts, facts_of
from ...call.layer_call import LayerCall
from ...store.tuned import Asked, planned
from ..choose import question_of
from ..driver.described import is_described
from ..driver.gemm import Gemm
from ..launch import CallSizes
from ..launchers import launcher_of
from ..spills import least_spilling
from ..step_down import check_counts
from .launcher import StepLauncher


class Recurrent(NamedTuple):
    """Neighbouring matrices of R that read one state: one product multiplies them."""

    first: int
    matrices: int
    state: int


@dataclass(frozen=True, eq=False)
class StepReady:
    """Single step of a module's layers, besides its tensors.

    Attributes:
        size: features of the module's input.
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
        plan: of both directions; a forward that spills has fewer rows per block.
    """

    layer_call: LayerCall
    batch: int
    size: int
    heads: int
    dim: int
    dtype: torch.dtype
    real: torch.dtype
    device: int
    counts: Counts
    products: tuple[Recurrent, ...]
    pairs: int
    sources: tuple[int, ...]
    one_gradient: bool
    summed_inputs: bool
    only_tiled: int
    asked: Asked
    plan: Plan

    @property
    def forward_plan(self) -> StepPlan:
        """Plan of the forward."""
        return cast(StepPlan, self.plan.forward)

    @property
    def backward_plan(self) -> StepPlan:
        """Plan of the backward."""
        return cast(StepPlan, self.plan.backward)

    @cached_property
    def forward(self) -> StepLauncher:
        """Launcher of the forward."""
        return self._launcher("forward")

    @cached_property
    def backward(self) -> StepLauncher:
        """Launcher of the backward."""
        return self._launcher("backward")

    @cached_property
    def gemm(self) -> Gemm:
        """Products of the library, on the current device."""
        return Gemm(self.device, self.dtype, self.layer_call.tf32)

    def _launcher(self, direction: Direction) -> StepLauncher:
        plan, sizes = self.plan, CallSizes(self.batch, self.heads, self.dim)
        if not is_described(self.device):
            plan, _ = least_spilling(self.asked, plan, (direction,))
        found = launcher_of(self.asked.cell, getattr(plan, direction), sizes, self.device)
        return cast(StepLauncher, found)

    def weights_grid(self, size: int, wanted: bool) -> tuple[int, int, int]:
        """Return the blocks for gradients of weights; `wanted` says if W or R has one."""
        columns = [size] * (self.counts.inputs > 0) + [self.dim] * len(self.sources)
        tile = self.backward_plan.gradient_tile
        assert tile is not None
        return tile.blocks(self.heads, self.dim, columns if wanted else ())

    def inputs_grid(self, size: int, sources: int) -> tuple[int, int, int]:
        """Return the blocks for gradients of features and `sources`; 0 for one not wanted."""
        tile = self.backward_plan.gradient_tile
        assert tile is not None
        return tile.input_blocks(self.batch, self.heads, self.dim, size, sources)


@lru_cache(maxsize=1024)
def step_ready(
    layer_call: LayerCall,
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
    products, first = [], 0
    for state, same in groupby(sources):
        count = len(list(same))
        products.append(Recurrent(first, count, state))
        first += count
    biases, gates = counts.biases, [gate.number for gate in layout.dense_gates.values]
    summed = counts.sums[1:] == [0, 0] and biases == list(range(len(biases)))
    question = question_of(layer_call, batch, heads, dim, dtype, device)
    asked = replace(question.asked, features=size)
    own = layer_call, batch, size, heads, dim, dtype
    found = device, counts, tuple(products), len(sources)
    return StepReady(
        *own,
        torch.float64 if dtype == torch.float64 else torch.float32,
        *found,
        tuple([state.number for state in layout.sources.values]),
        one_gradient=gates == list(range(counts.inputs)),
        summed_inputs=summed and len(biases) <= counts.inputs,
        only_tiled=8 + counts.states,
        asked=asked,
        plan=planned(asked, "step"),
    )
