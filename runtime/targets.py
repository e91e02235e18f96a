"""The targets that kernels run on, in a registry that other packages can add to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast, runtime_checkable

import torch
from torch import Tensor

from ..cellspec.cell import CellSpec
from ..codegen.shape import Precision, Save
from .call import Call, Choice
from .cpu.target import CpuTarget
from .cuda.target import CudaTarget
from .errors import TensorError
from .layers_call import LayersCall, LayersRead
from .replay.replays import Replays
from .tensors import Forward, Gradients, Saved, ScanInputs, Stepped

if TYPE_CHECKING:
    from .autograd.stack.stack import Stack


class Lanes(Protocol):
    """Gives each of two directions of time a lane of its own."""

    def lane(self, number: int) -> AbstractContextManager[Any]:
        """A context for a direction; what it launches runs beside the other's."""


class Target(Protocol):
    """A compiler of kernels and what they run on. Only a target knows its tensors' memory layouts.

    Attributes:
        device: torch's type of device that its tensors are on.
        dtypes: those that its kernels compute in.
    """

    device: str
    dtypes: tuple[torch.dtype, ...]

    def find_compiler(self, index: int | None) -> None:
        """Raise a CompileError if kernels cannot be built for the device of this number."""

    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        """The dtype in which a call is computed, and the dtype of its results."""

    def initial_states(
        self, like: Tensor, values: Sequence[float], shape: Sequence[int]
    ) -> list[Tensor]:
        """The states before the first step if the caller gives none."""

    def rounds(self, dtype: torch.dtype, precision: Precision) -> bool:
        """Whether the products of a call may round factors of float32 to TF32."""

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """The wx (B, T, N, D, Gx) of a module's input (T, B, input), as the kernels read it.

        By operations that autograd follows, at the precision of torch's products.
        """

    def project_at(self, x: Tensor, weight: Tensor, tf32: bool) -> Tensor:
        """The same at the precision of a call, where nothing has to follow."""

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
        """The gradients of `project`, of x and of the weight; None for one that is not wanted.

        The gradient of x is added to `d_x` where there is one, in place. `by_head` says that the
        gradient of the weight lies head by head in memory, which saves a copy.
        """

    def lanes(self, like: Tensor, steps: int) -> AbstractContextManager[Lanes] | None:
        """What runs two directions of time at once; None for one after the other.

        Args:
            like: gives the device.
            steps: of the call.
        """

    def new_d_wx(self, like: Tensor, shape: Sequence[int], gates: int) -> Tensor:
        """An empty d_wx with the strides that `backward` gives it."""

    def saved_shape(
        self, cell: CellSpec, sizes: Sequence[int], for_backward: bool, save: Save
    ) -> tuple[int, ...]:
        """The shape of `Forward.saved`."""

    def computes_gates_again(self, save: Save) -> bool:
        """Whether a backward computes the gates again, from wx and b."""

    def forward(self, call: Call, inputs: ScanInputs, donated: bool = False) -> Forward:
        """Run the forward of a call; `donated` says that nobody reads wx again.

        If `call.choice.reverse`, it runs from the last step to the first, on tensors in order.
        """

    def backward(
        self,
        call: Call,
        saved: Saved,
        d_states: Sequence[Tensor | None],
        d_last: Sequence[Tensor | None],
        donated: bool,
    ) -> Gradients:
        """Run the backward of a call."""


class SteppingTarget(Target, Protocol):
    """A target with kernels for a single step; others run a step as a sequence of one."""

    def step(
        self,
        stack: Stack,
        x: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        to: Stepped | None = None,
    ) -> Stepped:
        """Run all layers of a module over one step of x (B, input); `to` takes the results.

        A target with `steps_as_sequences` also takes a sequence of one step, (1, B, input).
        """

    def step_backward(
        self,
        stack: Stack,
        x: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        stepped: Stepped,
        gradients: Sequence[Tensor | None],
        needs: Sequence[bool],
    ) -> list[Tensor | None]:
        """The gradients of x, the caller's states and the flat weights of each layer."""

    def capture(
        self, device: torch.device, runs: Sequence[Callable[[], object]]
    ) -> list[Callable[[], None]] | None:
        """What replays each run on torch's current stream; None where nothing can be captured."""


@runtime_checkable
class JointTarget(Protocol):
    """A target that may run both directions of a layer as one call of twice the heads.

    Its calls take `reverse="half"`: then the second half of the heads runs in reversed time.
    """

    def joins(self, call: Call, like: Tensor, batch: int, heads: int, dim: int) -> bool:
        """Whether one call is better than a call of each direction, of so many heads."""


@runtime_checkable
class LayersTarget(Protocol):
    """A target that may run the layers of a call at the same time. It need not."""

    def forward_layers(
        self, asked: LayersCall, x: Tensor
    ) -> tuple[list[Forward], list[Tensor]] | None:
        """Run the forward of all layers; None where the caller has to run each by itself.

        Returns:
            The result of each layer, and the mask of each dropout.
        """

    def backward_layers(
        self, asked: LayersCall, reads: LayersRead, finish: Callable[[int, Gradients], None]
    ) -> bool:
        """Run the backward of all layers; False where the caller has to run each by itself.

        `finish` takes the gradients of a layer, by its number.
        """


def begin_kernels(target: Target, dtype: torch.dtype, index: int | None) -> None:
    """Let a target begin what a first call needs whatever its cell is, beside the caller.

    Args:
        target: whose `begin` is called, if it has one. It returns at once.
        dtype: in which the call is computed.
        index: of the device; None for the current one.
    """
    begin = getattr(target, "begin", None)
    if begin is not None:
        begin(dtype, index)


TARGETS: dict[str, Target] = {"cpu": CpuTarget(), "cuda": CudaTarget()}


def backends() -> tuple[str, ...]:
    """The words that `backend` takes: the targets' names, `"auto"` and `"reference"`."""
    return ("auto", *TARGETS, "reference")


def check_backend(backend: str) -> str:
    """Check that a word names a backend.

    Args:
        backend: the word.

    Raises:
        TensorError: it names none.
    """
    if backend not in backends():
        raise TensorError(
            "backend", repr(backend), f"one of {', '.join(backends())}", 'backend="auto"'
        )
    return backend


def register_target(name: str, target: Target) -> None:
    """Add a target: `rnnc.scan(..., backend=name)` and `rnnc.RNN(..., backend=name)` run on it.

    `backend="auto"` takes it for tensors on its type of device if no other target has that type.
    It serves plain tensors and first derivatives. `torch.compile`, modes and tensor subclasses take
    the operators of torch, which have kernels of this package's targets alone.

    Args:
        name: the word that asks for it.
        target: its layouts and calls.

    Raises:
        ValueError: there is a backend of this name.

    Example:
        >>> import rnnc, torch
        >>> from rnnc.runtime.cpu.target import CpuTarget
        >>> from rnnc.runtime.targets import register_target, unregister_target
        >>> register_target("mine", CpuTarget())
        >>> wx, R = torch.randn(2, 5, 1, 8, 1), torch.randn(1, 1, 8, 8)
        >>> over_time, last = rnnc.scan(rnnc.cells.elman, wx, R, backend="mine")
        >>> unregister_target("mine")
    """
    if name in backends():
        raise ValueError(f"there is a backend with the name {name!r}")
    TARGETS[name] = target


def unregister_target(name: str) -> None:
    """Remove a target that `register_target` added.

    Args:
        name: of the target.

    Raises:
        KeyError: there is no target of this name.
    """
    del TARGETS[name]


def target_name(device: str, backend: str = "auto") -> str | None:
    """The name of the target that serves a type of device; None if none does.

    Args:
        device: torch's type of device.
        backend: the caller's word; `"auto"` stands for the first target of the device.
    """
    if backend in TARGETS:
        return backend if TARGETS[backend].device == device else None
    if device in TARGETS and TARGETS[device].device == device:
        return device
    return next((name for name, target in TARGETS.items() if target.device == device), None)


def target_of(device: torch.device, backend: str = "auto") -> Target:
    """The target whose layouts hold for a device: the CPU's if the device has no kernels.

    Args:
        device: any device, `meta` for example.
        backend: the caller's word.
    """
    return TARGETS[target_name(device.type, backend) or "cpu"]


def replays_of(target: Target) -> Replays | None:
    """What records calls on a target, and replays them; None if the target has no way to.

    Args:
        target: any.
    """
    return Replays(target.stream_of) if hasattr(target, "stream_of") else None


def runs_one_step(target: Target, choice: Choice) -> TypeGuard[SteppingTarget]:
    """Whether the target runs a sequence of one step as a step, with the bits of `step`.

    Args:
        target: any.
        choice: the caller's. Another variant or save asks for kernels of sequences.
    """
    as_usual = choice.variant == "auto" and choice.save == "gates"
    return as_usual and bool(getattr(target, "steps_as_sequences", False))


def stepping(target: Target) -> SteppingTarget | None:
    """The target as one that has kernels for a single step; None if it has none.

    Args:
        target: any.
    """
    return cast(SteppingTarget, target) if hasattr(target, "step_backward") else None
