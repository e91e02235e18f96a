"""Faults for the module fuzzer to find: in the calls of modules, and in the process that runs them.

Processes import this file by its name, so it is on their path.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from rnnc.runtime.call.ragged import Ragged
from rnnc.runtime.call.tensors import inputs_at
from rnnc.runtime.cpu.target import CpuTarget
from rnnc.runtime.grad.layers import backward
from rnnc.runtime.grad.node import ready_of
from rnnc.runtime.module import given
from rnnc.runtime.module import rnn as module
from rnnc.runtime.module.stepper import Stepper
from rnnc.runtime.run.known_calls import KnownCalls
from rnnc.verify.fuzz.run import Outcome
from rnnc.verify.modules.case import ModuleCase
from rnnc.verify.modules.run import run_module


def a_wrong_gradient_of_one_layer(patch: pytest.MonkeyPatch) -> None:
    """Off by one percent in the layer whose backward is the first after a forward."""
    forward, backward, begins = CpuTarget.forward, CpuTarget.backward, []

    def note(self, *call, **more):
        begins[:] = [True]
        return forward(*call, **more)

    def wrong(self, *call, **more):
        found = backward(*call, **more)
        if not begins:
            return found
        begins.clear()
        return replace(found, d_R=found.d_R * 1.01)

    patch.setattr(CpuTarget, "forward", note)
    patch.setattr(CpuTarget, "backward", wrong)


def a_known_call_with_an_earlier_result(patch: pytest.MonkeyPatch) -> None:
    """Calls that passed all checks before give what the first one of their shape gave."""
    right, known = module.run_ready, {}

    def stale(ready):
        key = ready.entry.call, ready.tensors.x.shape
        return known.setdefault(key, right(ready))

    patch.setattr(module, "run_ready", stale)


def a_known_call_without_its_resets(patch: pytest.MonkeyPatch) -> None:
    """The second call forgets before which steps rows are reset."""
    right = KnownCalls.find_sequence

    def forgetful(self, rnn, x, states, *more):
        found = right(self, rnn, x, states, *more)
        if found is None or found.tensors.ragged is None:
            return found
        ragged = found.tensors.ragged
        reset = None if ragged.reset is None else ragged.reset & False
        forgotten = Ragged(ragged.lengths, reset, ragged.reset_to)
        tensors = found.tensors._replace(ragged=forgotten)
        return ready_of(found.entry, tensors)

    patch.setattr(KnownCalls, "find_sequence", forgetful)


def a_stepper_with_earlier_weights(patch: pytest.MonkeyPatch) -> None:
    """It does not see weights that change in place."""
    right = Stepper.__init__
    patch.setattr(
        Stepper, "__init__", lambda self, rnn, *more: right(self, copy.deepcopy(rnn), *more)
    )


def both_directions_with_one_draw(patch: pytest.MonkeyPatch) -> None:
    """A layer that runs backwards reads what the one that runs forwards drew."""
    right = given.draws_of_module

    def shared(cell, drawing, *more):
        found = right(cell, drawing, *more) or {}
        drawn = [name for name in found if name not in (drawing.inputs or {})]
        return found | {name: found[name][::2].repeat_interleave(2, 0) for name in drawn}

    patch.setattr(given, "draws_of_module", shared)


def a_backward_that_draws_anew(patch: pytest.MonkeyPatch) -> None:
    """Its kernels read other numbers than those of the forward."""
    patch.setattr(
        backward, "inputs_at", lambda *call: tuple(torch.rand_like(t) for t in inputs_at(*call))
    )


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    plant.__name__.replace("_", " "): plant
    for plant in (
        a_wrong_gradient_of_one_layer,
        a_known_call_with_an_earlier_result,
        a_known_call_without_its_resets,
        a_stepper_with_earlier_weights,
        both_directions_with_one_draw,
        a_backward_that_draws_anew,
    )
}


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """Inside, calls of modules have the fault."""
    with pytest.MonkeyPatch.context() as patch:
        FAULTS[fault](patch)
        yield


def run_with_a_wrong_gradient(case: ModuleCase, tell: Callable[[str], object]) -> Outcome:
    """Run a case in a process that has a fault."""
    with planted("a wrong gradient of one layer"):
        return run_module(case, tell)


def run_that_hangs(case: ModuleCase, tell: Callable[[str], object]) -> Outcome:
    """Wait for ever in a call, as for a GPU that does not answer."""
    tell(f"call 1 of {len(case.calls)}: {case.calls[0]}")
    time.sleep(1000)
    return Outcome("right")


def run_that_says_what_it_does(case: ModuleCase, tell: Callable[[str], object]) -> Outcome:
    """Take longer than a hang, call by call."""
    for number in range(10):
        tell(f"call {number}")
        time.sleep(0.5)
    return Outcome("right")


def run_that_crashes(case: ModuleCase, tell: Callable[[str], object]) -> Outcome:
    """End the process in the case's first call."""
    return run_module(case, lambda doing: os._exit(3) if "call 1" in doing else tell(doing))


def run_after_others(case: ModuleCase, tell: Callable[[str], object]) -> Outcome:
    """Fail in a process that has run another case."""
    _runs.append(case)
    return Outcome("wrong", ("a reason",), "a kind") if len(_runs) > 1 else Outcome("right")


_runs: list[ModuleCase] = []
