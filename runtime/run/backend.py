"""The backend of a call: a target with kernels for its device, or the reference."""

from __future__ import annotations

import torch

from ...codegen.one_stage import check_one_stage
from ...errors import TensorError
from ..call.marks import constant_in_graphs
from ..call.settings import Settings
from ..process.caller import warn_once
from ..targets.registry import (
    TARGETS,
    check_backend,
    compiler_error,
    target_name,
    without_kernels,
)


def backend_of(settings: Settings, device: torch.device) -> str:
    """Return the name of the target that runs a call on a device, or "reference"."""
    name = resolve_backend(settings.backend, device.type, device.index)
    if settings.cell.has_stages and name != "reference" and not TARGETS[name].takes_stages:
        return _backend_of_stages(settings, name)
    return name


def _backend_of_stages(settings: Settings, name: str) -> str:
    """Return "reference" for a cell with stages that kernels do not run, unless they were named."""
    cell = settings.cell
    if settings.backend != "auto":
        check_one_stage(cell, name, 'backend="auto"')
    if not torch.compiler.is_compiling():
        warn_once(
            f"rnnc runs {cell.name} by operations of torch, step by step: its step has stages,"
            f" products or reductions of values that it has computed, which {name} kernels lack"
        )
    return "reference"


@constant_in_graphs
def resolve_backend(backend: str, device: str, index: int | None = None) -> str:
    """Return the name of the target that serves a device, or "reference".

    Only here `"auto"` falls back to the reference. `index` is the device's number, if it has one.

    Raises:
        TensorError: there is no such backend, or it has no kernels for that device.
        NoCompilerError: the kernels were asked for by name, and there is no compiler.
        NoCudaError: likewise, and there is no CuPy, or the GPU is older than the kernels want.
    """
    if backend != "auto" and check_backend(backend) == "reference":
        return "reference"
    found = target_name(device, backend)
    if found is None:
        if backend != "auto":
            wanted = TARGETS[backend].device
            raise TensorError(
                "backend",
                f'"{backend}" with tensors on {device}',
                f"tensors on {wanted}",
                f'tensor.to("{wanted}"), or backend="auto"',
            )
        warn_once(f"rnnc has no kernels for the device {device!r}: it runs the reference loop")
        return "reference"
    error = compiler_error(found, index)
    if error is None:
        return found
    if backend != "auto":
        raise error
    warn_once(f"rnnc runs the slow reference loop, since there {without_kernels(found, error)}")
    return "reference"
