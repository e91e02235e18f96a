"""Runs the calls of a case, and judges them."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

import torch

from ...codegen.shape import PlanError
from ..fuzz.judge import LOST
from ..fuzz.run import Outcome, raised
from ..fuzz.worker import Kind, Tell
from .case import Call, ModuleCase
from .draw import draw_module
from .judge import Shares, judge_call, lost, shares_of
from .play import Played, Player
from .truth import Reference, plain
from .values import Tensors

# Further values for the reference, in case its error was small by chance; of each kind.
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
    if case.device == "cuda":
        torch.cuda.empty_cache()  # other processes share the GPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            played, refused = _played(case, tell)
        except torch.OutOfMemoryError as error:
            return _no_memory(error)
        except Exception as error:
            return raised(error)
        try:
            return _judged(case, played, refused, tell)
        except torch.OutOfMemoryError as error:
            return _no_memory(error)


def _no_memory(error: torch.OutOfMemoryError) -> Outcome:
    """Discard a case without memory: the processes of a run share the GPU."""
    return Outcome("discarded", (str(error),), "no memory on the GPU")


def _played(case: ModuleCase, tell: Tell) -> tuple[list[Played], str]:
    """Make all calls; return their results, and why one has no plan."""
    tell("the module")
    player, refused = Player(case), ""
    may_refuse = case.variant != "auto" or case.order == "wavefront"
    for number, call in enumerate(case.calls, 1):
        at = f"call {number} of {len(case.calls)}: {call}"
        tell(at)
        try:
            player.make(call)
            if not case.burst:
                _wait(case)
        except Exception as error:
            if isinstance(error, PlanError) and may_refuse:
                refused = str(error)
                continue
            error.add_note(f"in {at}")
            raise
    tell(f"the end of {len(case.calls)} calls")
    player.finish()
    _wait(case)
    return player.played, refused


def _wait(case: ModuleCase) -> None:
    if case.device == "cuda":
        torch.cuda.synchronize()


def _judged(case: ModuleCase, played: list[Played], refused: str, tell: Tell) -> Outcome:
    judge, unjudged = Judge(case), ""
    for number, each in enumerate(played, 1):
        at = f"result {number} of {len(played)}, {each.call}"
        if each.wrong:
            return Outcome("wrong", (each.wrong, f"in {at}"), "a call that was not refused")
        if not each.results:
            continue
        tell(f"the reference of {at}")
        truth, shares = judge.truth(each)
        reason = lost(truth, shares)
        if reason:
            unjudged = unjudged or reason
            continue
        wrong = judge_call(case, each.results, truth, shares)
        if wrong and case.dtype != "float64":
            shares = judge.larger(each, shares, tell)
            wrong = judge_call(case, each.results, truth, shares)
        if wrong:
            reasons = [f"{name}: {what}" for name, what in wrong.items()]
            return Outcome("wrong", (*reasons, f"in {at}"), "a wrong value")
    if unjudged:
        return Outcome("discarded", (unjudged,), "the reference cannot judge a call")
    return Outcome("refused", (refused,)) if refused else Outcome("right")


class Judge:
    """The results that calls have to give, and the size of the reference's own error.

    Args:
        case: the case.
    """

    def __init__(self, case: ModuleCase) -> None:
        dtype: torch.dtype = getattr(torch, case.dtype)
        self._case = case
        self._yardstick = torch.float32 if dtype == torch.float64 else dtype
        self._exact = Reference(case, torch.float64)
        self._shares: dict[Call, Shares] = {}

    def truth(self, each: Played) -> tuple[Tensors, Shares]:
        """Return the results in float64, and the reference's error in the case's dtype.

        That is measured once for calls that differ in their values alone.

        Args:
            each: the call that was made.
        """
        truth = self._exact.results(each.call, each.version)
        kind = replace(plain(each.call), values=0)
        if kind not in self._shares:
            loop = Reference(self._case, self._yardstick).results(each.call, each.version)
            self._shares[kind] = shares_of(truth, loop)
        return truth, self._shares[kind]

    def larger(self, each: Played, shares: Shares, tell: Tell) -> Shares:
        """Return the reference's largest errors: of the call, of other values, and of neighbours.

        Neighbours are one rounding away: the same terms cancel.

        Args:
            each: the call that was made.
            shares: what is known of them.
            tell: is told what begins.
        """
        case, found = self._case, dict(shares)
        others = [case]
        for draw in range(1, _MORE_DRAWS + 1):
            others += [replace(case, seed=case.seed + draw), replace(case, neighbour=draw)]
        for number, other in enumerate(others, 1):
            tell(f"draw {number} of {len(others)} of the reference of {each.call}")
            truth = Reference(other, torch.float64).results(each.call, each.version)
            loop = Reference(other, self._yardstick).results(each.call, each.version)
            for name, share in shares_of(truth, loop).items():
                # Of a neighbour it counts however large it is: then nothing can be told.
                if share <= LOST or other.neighbour:
                    found[name] = max(found[name], share)
        return found


MODULES = Kind(draw_module, run_module, _SECONDS, fresh=lambda case: case.fresh)
