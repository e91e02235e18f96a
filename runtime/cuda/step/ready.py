"""What a single step of a module needs besides its tensors, made once for all steps of a size."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import torch

from ....codegen.cuda.step.plan import StepPlan, forward_plan
from ....codegen.cuda.limits import Limits
from ....codegen.layout import layout_of
from ....codegen.shape import Shape
from ...call import Call
from ...check.tensor import DTYPES, check_memory
from ...store.facts import Counts, counts_of
from .. import choose
from ..launch import Kernel
from ..load import load_kernel
from ..step_down import check_counts
from .arguments import backward_step_struct, forward_step_struct

_WIDEST_ACCESS = 16  # bytes


class Recurrent(NamedTuple):
    """Matrices of R that one product multiplies: neighbours that read one state.

    Attributes:
        first: the number of the first of them.
        matrices: how many.
        state: the number of the state.
    """

    first: int
    matrices: int
    state: int


@dataclass(frozen=True, eq=False)
class StepReady:
    """A single step of a module's layers, besides its tensors.

    Attributes:
        call: of a layer.
        batch: rows.
        size: features of the module's input.
        heads: of a layer.
        dim: units per head.
        dtype: of all tensors.
        device: the device's number.
        counts: how many states, gates and other parts the cell has.
        products: of the states with R.
        one_gradient: whether the gradients of the gates with an input are those of the matrices'
            gates, in one order.
        summed_inputs: whether the gradients of the biases are sums of the first gradients of the
            gates with an input, and there are no params and no diagonal weights.
    """

    call: Call
    batch: int
    size: int
    heads: int
    dim: int
    dtype: torch.dtype
    device: int
    counts: Counts
    products: tuple[Recurrent, ...]
    one_gradient: bool
    summed_inputs: bool

    @cached_property
    def real(self) -> torch.dtype:
        """The dtype that the kernels compute in."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    @cached_property
    def pairs(self) -> int:
        """How many matrices R has."""
        return sum(product.matrices for product in self.products)

    @cached_property
    def _limits(self) -> Limits:
        call, sizes = self.call, (self.heads, self.dim, self.batch)
        asked = (call.cell, *sizes, self.dtype, self.device, call.choice, call.tf32)
        return choose.asked_for(*asked).limits

    @cached_property
    def forward_plan(self) -> StepPlan:
        """The plan of the forward."""
        rows = max(self.batch, 1)
        shape = Shape(self.heads, self.dim, batch=rows, dtype=DTYPES[self.dtype])
        return forward_plan(self.call.cell, shape, self.size, self._limits, self.call.tf32)

    @cached_property
    def backward_plan(self) -> StepPlan:
        """The plan of the backward."""
        return StepPlan(direction="backward", arch=self._limits.arch, dtype=DTYPES[self.dtype])

    @cached_property
    def forward(self) -> Launch:
        """The kernel of the forward."""
        counts, plan = self.counts, self.forward_plan
        return self._launch(plan, forward_step_struct(counts.states, counts.params))

    @cached_property
    def backward(self) -> Launch:
        """The kernel of the backward."""
        counts, plan = self.counts, self.backward_plan
        return self._launch(plan, backward_step_struct(counts.states, counts.params))

    def _launch(self, plan: StepPlan, struct: type[ctypes.Structure]) -> Launch:
        kernel = load_kernel(self.call.cell, plan, plan.kernel_names[0], self.device)
        return Launch(kernel, plan.grid(self.batch, self.heads, self.dim), struct)


class Launch(NamedTuple):
    """A kernel, its blocks, and the struct of its arguments.

    Attributes:
        kernel: of one direction.
        grid: its blocks.
        struct: of 64-bit fields.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    struct: type[ctypes.Structure]

    def __call__(self, *values: int) -> None:
        """Launch it.

        Args:
            values: of all fields, and of each element of those that are arrays.
        """
        self.kernel(self.grid, self.struct.from_buffer(array("q", values)))


@lru_cache(maxsize=1024)
def step_ready(
    call: Call, batch: int, size: int, heads: int, dim: int, dtype: torch.dtype, device: int
) -> StepReady:
    """Prepare single steps of one size. Their kernels are compiled and loaded by the first of them.

    Args:
        call: of a layer.
        batch: rows.
        size: features of the module's input.
        heads: of a layer.
        dim: units per head.
        dtype: of all tensors.
        device: the device's number.
    """
    check_counts(1, batch, heads)
    layout = layout_of(call.cell)
    sources = [state.number for state in layout.dense_sources.values]
    gates = [gate.number for gate in layout.dense_gates.values]
    products, first = [], 0
    for state, same in groupby(sources):
        count = len(list(same))
        products.append(Recurrent(first, count, state))
        first += count
    counts = counts_of(call.cell)
    biases = counts.biases
    summed = counts.sums[1:] == [0, 0] and biases == list(range(len(biases)))
    return StepReady(
        call,
        batch,
        size,
        heads,
        dim,
        dtype,
        device,
        counts,
        tuple(products),
        one_gradient=gates == list(range(counts.inputs)),
        summed_inputs=summed and len(biases) <= counts.inputs,
    )


def packed_places(tensors: Sequence[Any]) -> tuple[Sequence[Any], list[int]]:
    """Tensors without gaps and aligned for wide accesses, and their addresses; 0 for none.

    Args:
        tensors: or None for each that there is not. Each is copied if it is not so already.

    Raises:
        TensorError: a tensor has no memory, as those of a sharded module between calls.
    """
    places = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    kept = tensors
    for number, tensor in enumerate(tensors):
        if tensor is None or (tensor.is_contiguous() and not places[number] % _WIDEST_ACCESS):
            continue
        copy = tensor.clone(memory_format=torch.contiguous_format)
        kept = [*kept[:number], copy, *kept[number + 1 :]]
        places[number] = copy.data_ptr()
    if not all(places):
        for tensor in tensors:
            if tensor is not None:
                check_memory("a tensor of the step", tensor)
    return kept, places
