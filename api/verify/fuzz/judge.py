"""Judges results: their errors must not exceed those of the loop in the same dtype by much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..draw.tree import Case
from .twin import Edges, Results

EXACT = 1e-9  # the error that float64 may have, as a share of the largest value
TIMES = 3  # how many times the eager loop's error is allowed in the same dtype
# Roundings of the largest value that are always allowed, in case torch is exact by chance.
FLOOR = 4
# A result whose values are below this share of the largest one of its kind is judged on that scale,
# because its terms cancelled.
NEGLIGIBLE = 1e-6
LOST = 0.1  # a loop with an error above this share of the largest value cannot judge
# The least distance of an operand from a border, in multiples of the rounding error.
BORDER = 4


@dataclass(frozen=True)
class Wrong:
    """A result that differs from the loop's.

    Attributes:
        name: the output, or the gradient of a tensor, such as `d R[a, h]`.
        reason: what is wrong with it.
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class Discard(NamedTuple):
    """Why a case cannot be judged.

    Attributes:
        kind: the reason without names and numbers, for counting.
        reason: the reason in full.
    """

    kind: str
    reason: str


def parts(case: Case, results: Results) -> Iterator[tuple[str, Tensor]]:
    """Each result by name; a tensor of several gates is split into gates."""
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
    """The value that each result's error is divided by."""
    sizes = {name: largest(part) for name, part in parts(case, truth)}
    every = {
        kind: max((v for n, v in sizes.items() if n.startswith("d ") == kind), default=0.0)
        for kind in (False, True)
    }
    return {n: max(v, NEGLIGIBLE * every[n.startswith("d ")]) for n, v in sizes.items()}


def no_yardstick(case: Case, truth: Results, loop: Results) -> Discard | None:
    """Why the loop cannot judge a case; None if it can.

    Args:
        case: the case.
        truth: the loop's results in float64.
        loop: the loop's results in the case's dtype; in float32 for float64.
    """
    scale, own = scales(case, truth), dict(parts(case, loop))
    for name, part in parts(case, truth):
        if not bool(part.isfinite().all()):
            return Discard("not finite in float64", f"{name} is not finite in float64")
        error = largest(own[name].double() - part)
        if not error <= LOST * scale[name] and scale[name]:
            share = error / scale[name]
            reason = f"the loop's {name} is off by {share:.0%} of the largest value"
            return Discard("the loop's error is too large", reason)
    return None


def near_border(case: Case, truth: Edges, loop: Edges) -> Discard | None:
    """Why a comparison may go either way; None if none can.

    An exact tie in both loops is not a border: equal numbers are equal in every kernel.
    """
    if not truth.differences:
        return None
    eps = torch.finfo(getattr(torch, case.dtype)).eps
    share = 2.0**-26 if case.dtype == "float64" else 1.0  # of float32's rounding, float64's
    near = []
    for a, b, scale in zip(truth.differences, loop.differences, truth.scales, strict=True):
        margin = BORDER * (share * (a - b).abs().max() + eps * scale)
        tie = (a == 0) & (b == 0)
        near.append(((a.abs() <= margin) & ~tie).any())
    if not bool(torch.stack(near).any()):
        return None
    reason = "a comparison lies within rounding of its border"
    return Discard(reason, reason)


def judge(case: Case, ours: Results, truth: Results, loop: Results) -> list[Wrong]:
    """The results that are wrong.

    Args:
        case: the case.
        ours: the kernels' results.
        truth: the loop's results in float64.
        loop: the loop's results in the case's dtype.
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
        dtype: the result's dtype.
        scale: the result's scale.
        loop_error: the loop's error in that dtype.
    """
    if dtype == "float64":
        return EXACT * scale
    info = torch.finfo(getattr(torch, dtype))
    # Below the smallest normal number, numbers have a fixed distance.
    return TIMES * loop_error + FLOOR * (info.eps * scale + info.tiny * info.eps)


def _words(error: float, bound: float, scale: float) -> str:
    if math.isnan(error):
        return "is not finite"
    share = f" ({error / scale:.1e} of the largest value)" if scale else ""
    return f"is off by {error:.2e}{share}, allowed {bound:.2e}"
