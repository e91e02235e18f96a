"""The CPU as a target: its dtypes, the layouts of its tensors, and its calls."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.shape import Precision, Save
from ..call.call import Call
from ..call.stack import Stack
from ..call.tensors import Forward, Gradients, Saved, ScanInputs
from ..program.multiplier import TORCH, product_added
from ..store.facts import facts_of
from ..targets.target import Target
from . import kernels
from .compile import check_compiler, cpu_library
from .linear import linear, rows_of
from .plans import DTYPES, plan_of
from .sequence import CpuSequences
from .step import CpuSteps
from .tasks import multiplies_features


class CpuTarget(CpuSteps, CpuSequences, Target):
    """C++ kernels. wx lies as [T, B, head, gate, unit], which vectorises over units."""

    device = "cpu"
    dtypes: tuple[torch.dtype, ...] = tuple(DTYPES)
    takes_masks = True
    takes_inputs = True
    reads_by_address = True
    takes_steps = True

    def find_compiler(self, index: int | None) -> None:
        """Check that kernels can be built.

        Raises:
            NoCompilerError: there is no C++ compiler.
            CompileError: it is there, and broken.
        """
        check_compiler()

    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        """Return the dtype in which a call is computed, and the dtype of its results.

        Half precision is computed in float32, and each result is rounded once.
        """
        half = dtype in (torch.float16, torch.bfloat16)
        return torch.float32 if half else dtype, dtype

    def initial_states(
        self, like: Tensor, values: Sequence[float], shape: Sequence[int]
    ) -> list[Tensor]:
        """Return the states before the first step where the caller gives none."""
        return [like.new_full(tuple(shape), value) for value in values]

    def rounds(self, dtype: torch.dtype, precision: Precision) -> bool:
        """Return False: no product rounds factors of float32 to TF32 on a CPU."""
        return False

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the wx (B, T, N, D, Gx) of a module's input, by operations that autograd follows.

        x is (T, B, input), and the weight (Gx, N, D, input). The rows of the weight are permuted
        once per call; activations never are.
        """
        gates, heads, dim, _ = weight.shape
        wx = F.linear(x, rows_of(weight)).view(*x.shape[:2], heads, gates, dim)
        return wx.permute(1, 0, 2, 4, 3)

    def project_at(self, x: Tensor, weight: Tensor, tf32: bool) -> Tensor:
        """Return the result of `project`, without autograd."""
        gates, heads, dim, _ = weight.shape
        wx = linear(x, rows_of(weight)).view(*x.shape[:2], heads, gates, dim)
        return wx.permute(1, 0, 2, 4, 3)

    def project_gradients(
        self,
        d_wx: Tensor,
        x: Tensor,
        weight: Tensor,
        wanted: tuple[bool, bool],
        tf32: bool,
        d_x: Tensor | None = None,
        by_head: bool = False,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of x and of the weight of `project`, None where they are not wanted.

        `d_wx` is as `backward` gives it. The gradient of x is added to `d_x` in place, if that is
        given. Products are always by head.
        """
        gates, heads, dim, size = weight.shape
        count = x.shape[0] * x.shape[1]
        d_rows = d_wx.permute(1, 0, 2, 4, 3).reshape(count, heads * gates * dim)
        d_W = None
        if wanted[0]:
            if d_x is None:
                d_x = linear(d_rows, rows_of(weight).t()).view(x.shape)
            else:
                product_added(TORCH, d_x, d_rows, rows_of(weight), x.shape)
        if wanted[1]:
            d_W = torch.mm(d_rows.t(), x.reshape(count, size))
            if heads == 1:
                return d_x, d_W.view(gates, 1, dim, size)
            d_W = d_W.view(heads, gates, dim, size).transpose(0, 1)
        return d_x, d_W

    def new_d_wx(self, like: Tensor, shape: Sequence[int], gates: int) -> Tensor:
        """Return an empty d_wx, (B, T, N, D, Gx), with the strides that `backward` gives it."""
        batch, steps, heads, dim, inputs = shape
        d_gates = like.new_empty(steps, batch, heads, gates, dim)
        return d_gates[:, :, :, :inputs].permute(1, 0, 2, 4, 3)

    def saved_shape(
        self, cell: CellSpec, sizes: Sequence[int], for_backward: bool, save: Save
    ) -> tuple[int, ...]:
        """Return the shape of `Forward.saved` for the sizes T, B, N and D."""
        steps, batch, heads, dim = sizes
        keeps = for_backward and not self.computes_gates_again(save)
        return (steps if keeps else 0, batch, heads, len(facts_of(cell).saved), dim)

    def computes_gates_again(self, save: Save) -> bool:
        """Return True if a backward computes the gates again, from wx and b."""
        return save == "states"

    def load_ahead(self, call: Call, stack: Stack, steps: int, batch: int, like: Tensor) -> None:
        """Compile and load the kernels of a call, of one direction of time, before it is made."""
        cpu_library(call.cell, plan_of(like.dtype, call.choice.reverse, masked=call.masked))

    def forward(self, call: Call, inputs: ScanInputs, donated: bool = False) -> Forward:
        """Run the forward of a call; `donated` is not used."""
        plan = plan_of(inputs.wx.dtype, call.choice.reverse, masked=call.masked)
        keeps = call.for_backward and not self.computes_gates_again(call.choice.save)
        return kernels.forward(call.cell, plan, inputs, keeps, call.stored)

    def takes_features(self, call: Call, x: Tensor, weight: Tensor) -> bool:
        """Return True if `forward_of_features` is faster than the product and `forward`."""
        if call.for_backward or call.masked or call.cell.inputs:  # none of them is in that kernel
            return False
        return multiplies_features(x.shape[0], x.shape[1], weight.numel())

    def forward_of_features(
        self, call: Call, x: Tensor, weight: Tensor, inputs: ScanInputs
    ) -> Forward:
        """Run the forward without a backward, by a kernel that makes the products of the input too.

        The wx of `inputs` has no gates.
        """
        plan = plan_of(x.dtype, call.choice.reverse)
        features = kernels.features_of(x, weight)
        return kernels.forward(call.cell, plan, inputs, False, call.stored, features)

    def backward(
        self,
        call: Call,
        saved: Saved,
        d_states: Sequence[Tensor | None],
        d_last: Sequence[Tensor | None],
        donated: bool,
    ) -> Gradients:
        """Run the backward of a call. Gradients have the shapes that `kernels.backward` reads."""
        plan = plan_of(saved.saved.dtype, call.choice.reverse, masked=call.masked)
        return kernels.backward(call.cell, plan, saved, d_states, d_last)
