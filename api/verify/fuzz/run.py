"""Runs one case and judges it."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ...codegen.shape import PlanError
from ..draw.tree import Case
from .judge import Wrong, allowed, judge, largest, near_border, no_yardstick, parts, scales
from .ours import run_ours
from .tensors import draw_values, neighbours
from .twin import Results, run_twin

Verdict = Literal["right", "wrong", "discarded", "refused"]
# Further inputs for the eager loop, in case its error was small by chance: so many new draws, and
# so many that are one rounding away, where the same terms cancel.
_MORE_DRAWS = 6


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        verdict: `refused` if the variant has no plan for these sizes.
        reasons: one line each.
        kind: the kind of failure, which shrinking keeps, or of reason for a discard.
    """

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    kind: str = ""


def run_case(case: Case) -> Outcome:
    """Run a case with rnnc and as a loop, and judge it."""
    torch.set_num_threads(case.threads)
    os.environ["RNNC_QUICK_COMPILE"] = "1" if case.flags == "quick" else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _run(case)


def _yardstick(case: Case) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, case.dtype)
    return torch.float32 if dtype == torch.float64 else dtype


def _run(case: Case) -> Outcome:
    values, seeds = draw_values(case, case.seed)
    truth, edges = run_twin(case, values, seeds, torch.float64)
    loop, rough = run_twin(case, values, seeds, _yardstick(case))
    discard = no_yardstick(case, truth, loop) or near_border(case, edges, rough)
    if discard:
        return Outcome("discarded", (discard.reason,), discard.kind)
    try:
        ours = run_ours(case, values, seeds)
    except PlanError as error:
        if case.variant == "auto":
            return raised(error)
        return Outcome("refused", (str(error),))
    except Exception as error:
        return raised(error)
    wrong = judge(case, ours, truth, loop)
    if wrong and case.dtype != "float64":
        wrong = _again(case, wrong, ours, truth, loop)
    if not wrong:
        return Outcome("right")
    return Outcome("wrong", tuple(map(str, wrong)), "a wrong value")


def raised(error: Exception) -> Outcome:
    """Return the outcome of a case whose call raised an error.

    Args:
        error: what it raised; its notes are reasons too.
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    lines = (f"{type(error).__name__}: {error}", f"at {place.name} in {place.filename}")
    lines += tuple(getattr(error, "__notes__", ()))
    return Outcome("wrong", lines, f"{type(error).__name__} in {place.name}")


def _more_inputs(case: Case) -> Iterator[tuple[dict[str, Tensor], dict[str, Tensor]]]:
    values, seeds = draw_values(case, case.seed)
    for draw in range(1, _MORE_DRAWS + 1):
        yield draw_values(case, case.seed + draw)
        yield neighbours(case, values, draw), neighbours(case, seeds, -draw, "d ")


def _again(
    case: Case, wrong: list[Wrong], ours: Results, truth: Results, loop: Results
) -> list[Wrong]:
    """The results that are still wrong if the loop's error is the largest of several draws.

    On one draw of a few numbers the loop may be exact by chance.
    """
    scale, own = scales(case, truth), dict(parts(case, loop))
    exact = dict(parts(case, truth))
    shares = {n: largest(own[n].double() - exact[n]) / (scale[n] or 1) for n in exact}
    for values, seeds in _more_inputs(case):
        more, _ = run_twin(case, values, seeds, torch.float64)
        rough, _ = run_twin(case, values, seeds, _yardstick(case))
        sizes, found = scales(case, more), dict(parts(case, rough))
        for name, part in parts(case, more):
            share = largest(found[name].double() - part) / (sizes[name] or 1)
            if share <= 0.1:
                shares[name] = max(shares[name], share)
    found = dict(parts(case, ours))
    return [
        w
        for w in wrong
        if w.name not in exact
        or not largest(found[w.name].double() - exact[w.name])
        <= allowed(case.dtype, scale[w.name], shares[w.name] * scale[w.name])
    ]
