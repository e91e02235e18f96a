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

        Args:
            index: of the device; not used.

        Raises:
            NoCompilerError: there is no C++ compiler.
            CompileError: it is there, and broken.
        """
        check_compiler()

    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        """The dtype in which a call is computed, and the dtype of its results.

        Half precision is computed in float32, and each result is rounded once.

        Args:
            dtype: of wx.
        """
        half = dtype in (torch.float16, torch.bfloat16)
        return torch.float32 if half else dtype, dtype

    def initial_states(
        self, like: Tensor, values: Sequence[float], shape: Sequence[int]
    ) -> list[Tensor]:
        """The states before the first step where the caller gives none.

        Args:
            like: gives dtype and device.
            values: of each state.
            shape: of each.
        """
        return [like.new_full(tuple(shape), value) for value in values]

    def rounds(self, dtype: torch.dtype, precision: Precision) -> bool:
        """Whether products may round factors of float32 to TF32: never on a CPU.

        Args:
            dtype: in which the call is computed; not used.
            precision: the caller's; not used.
        """
        return False

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """The wx (B, T, N, D, Gx) of a module's input, by operations that autograd follows.

        Args:
            x: (T, B, input).
            weight: (Gx, N, D, input). Its rows are permuted once per call; activations never are.
        """
        gates, heads, dim, _ = weight.shape
        wx = F.linear(x, rows_of(weight)).view(*x.shape[:2], heads, gates, dim)
        return wx.permute(1, 0, 2, 4, 3)

    def project_at(self, x: Tensor, weight: Tensor, tf32: bool) -> Tensor:
        """The same where nothing has to follow.

        Args:
            x: as in `project`.
            weight: as in `project`.
            tf32: not used.
        """
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
        """The gradients of `project`: of x and of the weight, None where they are not wanted.

        Args:
            d_wx: as `backward` gives it.
            x: as in `project`.
            weight: as in `project`.
            wanted: which of the two.
            tf32: not used.
            d_x: to which the gradient of x is added, in place; None for a new tensor.
            by_head: not used: it always does.
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
        """An empty d_wx with the strides that `backward` gives it.

        Args:
            like: gives dtype and device.
            shape: B, T, N, D and Gx.
            gates: all gates of the cell.
        """
        batch, steps, heads, dim, inputs = shape
        d_gates = like.new_empty(steps, batch, heads, gates, dim)
        return d_gates[:, :, :, :inputs].permute(1, 0, 2, 4, 3)

    def saved_shape(
        self, cell: CellSpec, sizes: Sequence[int], for_backward: bool, save: Save
    ) -> tuple[int, ...]:
        """The shape of `Forward.saved`.

        Args:
            cell: the cell.
            sizes: T, B, N and D.
            for_backward: whether a backward may follow.
            save: the caller's choice.
        """
        steps, batch, heads, dim = sizes
        keeps = for_backward and not self.computes_gates_again(save)
        return (steps if keeps else 0, batch, heads, len(facts_of(cell).saved), dim)

    def computes_gates_again(self, save: Save) -> bool:
        """Return whether a backward computes the gates again, from wx and b.

        Args:
            save: the caller's choice.
        """
        return save == "states"

    def load_ahead(
        self,
        call: Call,
        stack: Stack,
        steps: int,
        batch: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Compile and load the kernels of a call that has not been made.

        Args:
            call: of one direction of time.
            stack: of all layers; not used.
            steps: T; not used.
            batch: rows; not used.
            dtype: in which the call is computed.
            device: not used.
        """
        cpu_library(call.cell, plan_of(dtype, call.choice.reverse, masked=call.masked))

    def forward(self, call: Call, inputs: ScanInputs, donated: bool = False) -> Forward:
        """Run the forward of a call.

        Args:
            call: the call.
            inputs: its tensors.
            donated: whether nobody reads wx again; not used.
        """
        plan = plan_of(inputs.wx.dtype, call.choice.reverse, masked=call.masked)
        keeps = call.for_backward and not self.computes_gates_again(call.choice.save)
        return kernels.forward(call.cell, plan, inputs, keeps, call.stored)

    def takes_features(self, call: Call, x: Tensor, weight: Tensor) -> bool:
        """Return whether `forward_of_features` is faster than the product and `forward`.

        Args:
            call: the call.
            x: (T, B, input).
            weight: (Gx, N, D, input).
        """
        if call.for_backward or call.masked or call.cell.inputs:  # none of them is in that kernel
            return False
        return multiplies_features(x.shape[0], x.shape[1], weight.numel())

    def forward_of_features(
        self, call: Call, x: Tensor, weight: Tensor, inputs: ScanInputs
    ) -> Forward:
        """Run the forward of a call, whose kernel makes the products of the input too.

        Args:
            call: the call, which no backward follows.
            x: (T, B, input).
            weight: (Gx, N, D, input).
            inputs: its other tensors; wx has no gates.
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
        """Run the backward of a call.

        Args:
            call: the call.
            saved: of its forward.
            d_states: the gradient of each state at all steps, (T, B, N, D), or None for zero.
            d_last: the gradient of each last state, (B, N, D), or None for zero.
            donated: whether nobody reads `saved.saved` again; not used.
        """
        plan = plan_of(saved.saved.dtype, call.choice.reverse, masked=call.masked)
        return kernels.backward(call.cell, plan, saved, d_states, d_last)
