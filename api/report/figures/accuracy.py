"""The error of a cell's kernels against float64, over time."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...cellspec.cell import CellSpec
from ...codegen.shape import Dtype, Shape
from ...errors import CompileError
from ...runtime.call.tensors import ScanInputs
from ...verify.inputs import ordinary, run
from .limits import data
from .plot import Curve, Plot

_BATCH, _STEPS, _LARGEST_DIM = 2, 256, 64
_LEAST = 1e-18  # shown for an error of exactly zero


class Accuracy(NamedTuple):
    """The relative error of the output, step by step.

    Attributes:
        plot: the errors; None if nothing was computed.
        method: how they were found, and on what.
        missing: why the CPU kernels have no errors, or nothing.
        others: what is known of two-byte dtypes.
    """

    plot: Plot | None
    method: str
    missing: str
    others: str


def accuracy_of(
    cell: CellSpec, shape: Shape, measured: tuple[Curve, ...] = (), where: str = ""
) -> Accuracy:
    """The errors of the CPU's float32 and float64 kernels, computed now, and a GPU's.

    Args:
        cell: the cell.
        shape: its head dim counts up to 64, and its heads, batch and steps do not: errors are
            per unit.
        measured: the errors of a GPU's kernels, if they were measured.
        where: the GPU that they were measured on.
    """
    curves: list[Curve] = []
    missing = ""
    try:
        curves = errors_of(cell, shape, ("float32", "float64"), "cpu")
    except CompileError as error:
        missing = f"{error.found}. To add the CPU's errors: {error.write}"
    known = _committed(cell, shape)
    others = "bfloat16 and float16: not measured"
    if measured:
        curves += measured
        others = f"{shape.dtype}: measured on {where}"
    elif known:
        curves += [curve for curve, _ in known]
        others = "bfloat16 and float16: " + known[0][1]
    curves = [curve for curve in curves if curve.points]
    plot = Plot("Error over time", "step", "relative error of the output", tuple(curves), ())
    dim = min(shape.head_dim, _LARGEST_DIM)
    method = (
        "float32 and float64: C++ kernels on a CPU, computed for this page;"
        f" {_BATCH} × {_STEPS} steps of 1 × {dim}, random inputs and weights, seed 0,"
        " against the equations in float64 (as torch runs them)"
    )
    return Accuracy(plot if curves else None, method, missing, others)


def errors_of(cell: CellSpec, shape: Shape, dtypes: tuple[Dtype, ...], backend: str) -> list[Curve]:
    """The relative error of the output against float64, for random inputs.

    Args:
        cell: the cell.
        shape: gives the head dim, up to 64.
        dtypes: of the kernels.
        backend: `"cpu"` or `"cuda"`.

    Raises:
        CompileError: there is no compiler for the kernels.
    """
    dim = min(shape.head_dim, _LARGEST_DIM)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        inputs = ordinary(cell, _BATCH, _STEPS, 1, dim).map(lambda tensor: tensor.to(backend))
        return [_curve(cell, inputs, dtype, backend) for dtype in dtypes]


def _curve(cell: CellSpec, inputs: ScanInputs, dtype: Dtype, backend: str) -> Curve:
    # The truth is of the same numbers: rounded inputs are not an error of the kernel.
    rounded = inputs.map(lambda tensor: tensor.to(getattr(torch, dtype)))
    truth = run(cell, rounded.map(lambda tensor: tensor.double()), "reference")[0][0]
    found = run(cell, rounded, backend)[0][0].double()
    size = truth.square().sum((0, 2, 3)).clamp_min(1e-300)
    error = ((found - truth).square().sum((0, 2, 3)) / size).sqrt()
    name = f"{dtype}, {'CPU' if backend == 'cpu' else 'GPU'}"
    # A cell such as an IndRNN may grow without bound: its curve ends where a value overflows.
    finite = int(error.isfinite().long().cumprod(0).sum())
    return Curve(name, tuple((i, max(float(error[i - 1]), _LEAST)) for i in _steps(finite)))


def _steps(last: int) -> list[int]:
    """Steps that are about evenly spaced on a logarithmic axis."""
    found = {round(2 ** (i / 4)) for i in range(200)}
    return sorted(step for step in found if step <= last)


def _committed(cell: CellSpec, shape: Shape) -> list[tuple[Curve, str]]:
    """Curves of the package's data for a cell and size, with their source."""
    found = data("errors.json")
    source = f"measured on one {found['machine']}, {found['date']}: {found['source']}"
    return [
        (
            Curve(
                f"{case['dtype']}, {case['kernel']}, GPU",
                tuple(
                    (step, max(e, _LEAST))
                    for step, e in zip(case["steps"], case["errors"], strict=True)
                ),
            ),
            source,
        )
        for case in found["cases"]
        if (case["cell"], case["heads"], case["head_dim"])
        == (cell.name, shape.heads, shape.head_dim)
    ]
