"""The targets that kernels run on, by torch's type of device."""

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


def target_of(device: torch.device) -> Target:
    """The target of a device; the CPU's layouts hold for a device without kernels.

    Args:
        device: any device, `meta` for example.
    """
    return TARGETS.get(device.type, TARGETS["cpu"])
