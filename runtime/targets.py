"""The targets that kernels run on, by torch's type of device, and a call's way to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.shape import Save
from .call import Call
from .cpu.target import CpuTarget
from .cuda.target import CudaTarget
from .tensors import Forward, Gradients, Saved, ScanInputs


class Target(Protocol):
    """A kind of device with kernels. Only a target knows how its tensors lie in memory.

    Attributes:
        dtypes: those that its kernels compute in.
    """

    dtypes: tuple[torch.dtype, ...]

    def find_compiler(self, index: int | None) -> None:
        """Raise a CompileError if kernels cannot be built for the device of this number."""

    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        """The dtype in which a call is computed, and the dtype of its results."""

    def initial_states(
        self, like: Tensor, values: Sequence[float], shape: Sequence[int]
    ) -> list[Tensor]:
        """The states before the first step where the caller gives none."""

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """The wx (B, T, N, D, Gx) of a module's input (T, B, input), as the kernels read it."""

    def new_d_wx(self, like: Tensor, shape: Sequence[int], gates: int) -> Tensor:
        """An empty d_wx with the strides that `backward` gives it."""

    def saved_shape(
        self, cell: CellSpec, sizes: Sequence[int], for_backward: bool, save: Save
    ) -> tuple[int, ...]:
        """The shape of `Forward.saved`."""

    def computes_gates_again(self, save: Save) -> bool:
        """Whether a backward computes the gates again, from wx and b."""

    def forward(self, call: Call, inputs: ScanInputs) -> Forward:
        """Run the forward of a call."""

    def backward(
        self,
        call: Call,
        saved: Saved,
        d_states: Sequence[Tensor | None],
        d_last: Sequence[Tensor | None],
        donated: bool,
    ) -> Gradients:
        """Run the backward of a call."""


TARGETS: dict[str, Target] = {"cpu": CpuTarget(), "cuda": CudaTarget()}


def target_of(tensor: Tensor) -> Target:
    """The target of a tensor's device; the CPU's layouts hold for a device without kernels.

    Args:
        tensor: of any device, `meta` for example.
    """
    return TARGETS.get(tensor.device.type, TARGETS["cpu"])


def run_forward(call: Call, inputs: ScanInputs) -> Forward:
    """Run the forward of a call on the device of its tensors.

    Args:
        call: the call.
        inputs: its tensors.
    """
    return TARGETS[inputs.wx.device.type].forward(call, inputs)


def run_backward(
    call: Call,
    saved: Saved,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
    donated: bool = False,
) -> Gradients:
    """Run the backward of a call on the device of its tensors.

    Args:
        call: the call.
        saved: of its forward.
        d_states: the gradient of each state at all steps, (T, B, N, D), or None for zero.
        d_last: the gradient of each last state, (B, N, D), or None for zero.
        donated: whether nobody reads `saved.saved` again: its memory may then be overwritten.
    """
    device = saved.saved.device.type
    if torch.is_autocast_enabled(device):
        # A caller's backward inside autocast: the sums over time are products of torch, which
        # autocast would round. The forward has decided what the kernels compute in.
        with torch.autocast(device, enabled=False):
            return TARGETS[device].backward(call, saved, d_states, d_last, donated)
    return TARGETS[device].backward(call, saved, d_states, d_last, donated)
