"""Judges the results of a call by those of the reference, in float64 and in the case's dtype."""

from __future__ import annotations

import math

import torch

from ..fuzz.judge import LOST, NEGLIGIBLE, allowed, largest
from .case import ModuleCase
from .values import Tensors

Shares = dict[str, float]


def scales_of(truth: Tensors) -> Shares:
    """Return the value that each result's error is divided by.

    Args:
        truth: the results in float64.
    """
    sizes = {name: largest(tensor) for name, tensor in truth.items()}
    every = {
        kind: max((v for n, v in sizes.items() if n.startswith("d ") == kind), default=0.0)
        for kind in (False, True)
    }
    return {n: max(v, NEGLIGIBLE * every[n.startswith("d ")]) for n, v in sizes.items()}


def shares_of(truth: Tensors, loop: Tensors) -> Shares:
    """Return the reference's error in the case's dtype, as a share of each result's scale.

    Args:
        truth: the results in float64.
        loop: those in the case's dtype.
    """
    scale = scales_of(truth)
    return {n: largest(loop[n].double() - t) / (scale[n] or 1.0) for n, t in truth.items()}


def lost(truth: Tensors, shares: Shares) -> str:
    """Say why the reference cannot judge a call; empty if it can.

    Args:
        truth: the results in float64.
        shares: what `shares_of` gave.
    """
    for name, tensor in truth.items():
        if not bool(tensor.isfinite().all()):
            return f"{name} is not finite in float64"
        if not shares[name] <= LOST:
            return f"the reference's {name} is off by {shares[name]:.0%} of the largest value"
    return ""


def judge_call(case: ModuleCase, found: Tensors, truth: Tensors, shares: Shares) -> dict[str, str]:
    """Say what is wrong with the results of a call, by name.

    Args:
        case: the case.
        found: the results of the kernels.
        truth: the results in float64.
        shares: the reference's error in the case's dtype, as a share of each result's scale.
    """
    wrong = dict.fromkeys(truth.keys() - found.keys(), "is missing")
    wrong |= dict.fromkeys(found.keys() - truth.keys(), "was not asked for")
    dtype, scale = getattr(torch, case.dtype), scales_of(truth)
    for name in [name for name in truth if name in found]:
        given, exact = found[name], truth[name]
        if given.shape != exact.shape:
            wrong[name] = f"has the shape {tuple(given.shape)}, not {tuple(exact.shape)}"
        elif given.dtype != dtype:
            wrong[name] = f"is {given.dtype}, not {dtype}"
        else:
            bound = allowed(case.dtype, scale[name], shares[name] * scale[name])
            error = largest(given.double() - exact)
            if not error <= bound:
                wrong[name] = _words(error, bound, scale[name])
    return wrong


def _words(error: float, bound: float, scale: float) -> str:
    if math.isnan(error):
        return "is not finite"
    share = f" ({error / scale:.1e} of the largest value)" if scale else ""
    return f"is off by {error:.2e}{share}, allowed {bound:.2e}"
