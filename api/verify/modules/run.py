"""Runs the calls of a case, and judges them."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

import torch

from ...codegen.shape import PlanError
from ..fuzz.run import Outcome, raised
from ..fuzz.worker import Kind, Tell
from .case import ModuleCase
from .draw import draw_module
from .judge import judge_call, lost, shares_of
from .play import Played, Player
from .truth import Reference

# Further weights and inputs for the reference, in case its error was small by chance.
_MORE_DRAWS = 6
# The longest that a call may take, with the compilation of its kernels beside other processes.
_SECONDS = 120.0


def run_module(case: ModuleCase, tell: Tell = lambda doing: None) -> Outcome:
    """Make the calls of a case, and compare them with the reference.

    Args:
        case: the case.
        tell: is told what begins, in words.
    """
    torch.set_num_threads(case.threads)
    os.environ["RNNC_QUICK_COMPILE"] = "1" if case.flags == "quick" else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            played = _played(case, tell)
        except PlanError as error:
            if case.variant == "auto" and case.order != "wavefront":
                return raised(error)
            return Outcome("refused", (str(error),))
        except Exception as error:
            return raised(error)
        return _judged(case, played, tell)


def _played(case: ModuleCase, tell: Tell) -> list[Played]:
    tell("the module")
    player = Player(case)
    for number, call in enumerate(case.calls, 1):
        tell(f"call {number} of {len(case.calls)}: {call}")
        try:
            player.make(call)
            if not case.burst:
                _wait(case)
        except PlanError:
            raise
        except Exception as error:
            error.add_note(f"in call {number} of {len(case.calls)}: {call}")
            raise
    tell(f"the end of {len(case.calls)} calls")
    player.finish()
    _wait(case)
    return player.played


def _wait(case: ModuleCase) -> None:
    if case.device == "cuda":
        torch.cuda.synchronize()


def _judged(case: ModuleCase, played: list[Played], tell: Tell) -> Outcome:
    exact = Reference(case, torch.float64)
    rough = Reference(case, _yardstick(case))
    unjudged = ""
    for number, each in enumerate(played, 1):
        at = f"result {number} of {len(played)}, {each.call}"
        if each.wrong:
            return Outcome("wrong", (each.wrong, f"in {at}"), "a call that was not refused")
        if not each.results:
            continue
        tell(f"the reference of {at}")
        truth = exact.results(each.call, each.version)
        shares = shares_of(truth, rough.results(each.call, each.version))
        reason = lost(truth, shares)
        if reason:
            unjudged = unjudged or reason
            continue
        wrong = judge_call(case, each.results, truth, shares)
        if wrong and case.dtype != "float64":
            shares = _larger(case, each, shares, tell)
            wrong = judge_call(case, each.results, truth, shares)
        if wrong:
            reasons = [f"{name}: {what}" for name, what in wrong.items()]
            return Outcome("wrong", (*reasons, f"in {at}"), "a wrong value")
    if unjudged:
        return Outcome("discarded", (unjudged,), "the reference cannot judge a call")
    return Outcome("right")


def _yardstick(case: ModuleCase) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, case.dtype)
    return torch.float32 if dtype == torch.float64 else dtype


def _larger(
    case: ModuleCase, each: Played, shares: dict[str, float], tell: Tell
) -> dict[str, float]:
    """The largest errors of the reference among several draws of weights and inputs."""
    found = dict(shares)
    for draw in range(1, _MORE_DRAWS + 1):
        tell(f"draw {draw} of the reference of {each.call}")
        other = replace(case, seed=case.seed + draw)
        exact, rough = Reference(other, torch.float64), Reference(other, _yardstick(case))
        truth = exact.results(each.call, each.version)
        for name, share in shares_of(truth, rough.results(each.call, each.version)).items():
            if share <= 0.1:
                found[name] = max(found[name], share)
    return found


MODULES = Kind(draw_module, run_module, _SECONDS, fresh=lambda case: case.fresh)
