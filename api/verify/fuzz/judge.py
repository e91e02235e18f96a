"""Right or wrong: results against the loop in float64, measured by the loop in the same dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..draw.tree import Case
from .twin import Edges, Results

EXACT = 1e-9  # of the largest value: what float64 may differ by
TIMES = 3  # the error of the eager loop in the same dtype
# Roundings of the largest value that are always allowed: where torch happens to be exact.
FLOOR = 4
# What is smaller, as a share of the largest of all results alike, is judged on that scale: below it
# lies what cancelled.
NEGLIGIBLE = 1e-6
LOST = 0.1  # the share of the largest value that a loop may lose before it is no yardstick
# How many times the rounding that was seen an operand's distance from a border must be.
BORDER = 4


@dataclass(frozen=True)
class Wrong:
    """A result that is not what the loop gives.

    Attributes:
        name: of the output, or of the gradient of a tensor: `d R[a, h]`.
        reason: what is wrong with it.
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def parts(case: Case, results: Results) -> Iterator[tuple[str, Tensor]]:
    """Each result by name; those that hold several gates, gate by gate."""
    cell = case.cell
    inputs, biases = [g.name for g in cell.input_gates], [g.name for g in cell.bias_gates]
    labels = {
        "wx": inputs,
        "weight_ih": inputs,
        "b": biases,
        "R": [f"{g} of {s}" for g, s in cell.pairs(True)],
        "R_diag": [f"{g} of {s}" for g, s in cell.pairs("diagonal")],
    }
    for name, tensor in results.items():
        kind = name.removeprefix("d ").partition(".")[0]
        if name.startswith("d ") and kind in labels:
            slices = tensor.unbind(-1 if kind == "wx" else 0)
            for label, part in zip(labels[kind], slices, strict=True):
                yield f"{name}, {label}", part
        else:
            yield name, tensor


def largest(tensor: Tensor) -> float:
    """The largest magnitude; NaN if a value is NaN."""
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def scales(case: Case, truth: Results) -> dict[str, float]:
    """What each result's error is a share of."""
    sizes = {name: largest(part) for name, part in parts(case, truth)}
    every = {
        kind: max((v for n, v in sizes.items() if n.startswith("d ") == kind), default=0.0)
        for kind in (False, True)
    }
    return {n: max(v, NEGLIGIBLE * every[n.startswith("d ")]) for n, v in sizes.items()}


def no_yardstick(case: Case, truth: Results, loop: Results) -> str:
    """Why the loop cannot judge a case; empty where it can.

    Args:
        case: the case.
        truth: of the loop in float64.
        loop: of the loop in the case's dtype; for float64 in float32.
    """
    scale, own = scales(case, truth), dict(parts(case, loop))
    for name, part in parts(case, truth):
        if not bool(part.isfinite().all()):
            return f"{name} is not finite in float64"
        error = largest(own[name].double() - part)
        if not error <= LOST * scale[name] and scale[name]:
            share = error / scale[name]
            return f"the loop's own {name} departs by {share:.0%} of the largest value"
    return ""


def near_border(case: Case, truth: Edges, loop: Edges) -> str:
    """Why a comparison may go either way; empty where none may.

    An exact tie of both loops is no border: equal numbers are equal in every kernel.
    """
    if not truth.differences:
        return ""
    eps = torch.finfo(getattr(torch, case.dtype)).eps
    share = 2.0**-26 if case.dtype == "float64" else 1.0  # of float32's rounding, float64's
    near = []
    for a, b, scale in zip(truth.differences, loop.differences, truth.scales, strict=True):
        margin = BORDER * (share * (a - b).abs().max() + eps * scale)
        tie = (a == 0) & (b == 0)
        near.append(((a.abs() <= margin) & ~tie).any())
    found = bool(torch.stack(near).any())
    return "a comparison lies within rounding of its border" if found else ""


def judge(case: Case, ours: Results, truth: Results, loop: Results) -> list[Wrong]:
    """What is wrong with results.

    Args:
        case: the case.
        ours: of the kernels.
        truth: of the loop in float64.
        loop: of the loop in the case's dtype.
    """
    wrong = [
        Wrong(name, "is missing" if name in truth else "was not asked for")
        for name in sorted(truth.keys() ^ ours.keys())
    ]
    dtype = getattr(torch, case.dtype)
    for name in truth.keys() & ours.keys():
        if ours[name].shape != truth[name].shape:
            shapes = f"{tuple(ours[name].shape)}, not {tuple(truth[name].shape)}"
            wrong.append(Wrong(name, f"has the shape {shapes}"))
        elif ours[name].dtype != dtype:
            wrong.append(Wrong(name, f"is {ours[name].dtype}, not {dtype}"))
    if wrong:
        return wrong
    scale, own = scales(case, truth), dict(parts(case, loop))
    found = dict(parts(case, ours))
    for name, part in parts(case, truth):
        bound = allowed(case.dtype, scale[name], largest(own[name].double() - part))
        error = largest(found[name].double() - part)
        if not error <= bound:
            wrong.append(Wrong(name, _words(error, bound, scale[name])))
    return wrong


def allowed(dtype: str, scale: float, loop_error: float) -> float:
    """The error that a result may have.

    Args:
        dtype: of the result.
        scale: of the result.
        loop_error: of the loop in that dtype.
    """
    if dtype == "float64":
        return EXACT * scale
    info = torch.finfo(getattr(torch, dtype))
    # Below the smallest normal number, a rounding is a whole step.
    return TIMES * loop_error + FLOOR * (info.eps * scale + info.tiny * info.eps)


def _words(error: float, bound: float, scale: float) -> str:
    if math.isnan(error):
        return "is not finite"
    share = f" ({error / scale:.1e} of the largest value)" if scale else ""
    return f"is off by {error:.2e}{share}, allowed {bound:.2e}"
