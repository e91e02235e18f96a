"""Registry of the targets that kernels run on, to which other packages can add, and refusals."""

from __future__ import annotations

import torch

from ...errors import CompileError, NoCompilerError, TensorError
from ..call.call import Tensors
from .target import Target

#: By name; `runtime/run` adds those of this package.
TARGETS: dict[str, Target] = {}


def backends() -> tuple[str, ...]:
    """Return the words that `backend` takes: the targets' names, `"auto"` and `"reference"`."""
    return ("auto", *TARGETS, "reference")


def check_backend(backend: str) -> str:
    """Return a word that names a backend; raise a `TensorError` if it names none."""
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
        TypeError: the target is no `Target`.

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
    if not isinstance(target, Target):
        raise TypeError(
            f"the target {name!r} is an object of {type(target).__name__}, which is no Target: "
            "write `class Mine(rnnc.runtime.targets.Target)`, whose abstract methods are those "
            "that every target needs, and register an object of it"
        )
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
    """Return the name of a device's target, the first one for `"auto"`; None if none serves it."""
    if backend in TARGETS:
        return backend if TARGETS[backend].device == device else None
    if device in TARGETS and TARGETS[device].device == device:
        return device
    return next((name for name, target in TARGETS.items() if target.device == device), None)


def compiler_error(name: str, index: int | None) -> CompileError | None:
    """Return why a target can build no kernels for its device of a number; None if it can."""
    try:
        TARGETS[name].find_compiler(index)
    except CompileError as error:
        return error
    return None


def without_kernels(name: str, error: CompileError) -> str:
    """Return the end of a warning about a target without kernels, after "there"."""
    none = isinstance(error, NoCompilerError)
    return f"{'is no compiler' if none else f'are no {name.upper()} kernels'}:\n{error}"


def target_of(device: torch.device, backend: str = "auto") -> Target:
    """Return the target whose layouts hold for a device: the CPU's for one without kernels."""
    return TARGETS[target_name(device.type, backend) or "cpu"]


def check_takes(target: Target, name: str, tensors: Tensors) -> None:
    """Raise a `TensorError` for lengths, resets or inputs of the cell that a target lacks."""
    if tensors.ragged is not None and not target.takes_masks:
        raise TensorError(
            "lengths and reset",
            f"kernels for {name}, which run all steps of all rows",
            "a backend that takes lengths and resets",
            'backend="reference", a loop of torch operations',
        )
    if tensors.unweighted and not target.takes_inputs:
        raise TensorError(
            "inputs",
            f"kernels for {name}, which have no inputs that no weight multiplies",
            "a backend that takes a cell's Input",
            'backend="reference", a loop of torch operations',
        )
