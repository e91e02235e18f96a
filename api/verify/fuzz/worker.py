"""A process that runs cases, so that a crash or a hang is a result like any other."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

import torch

from ..draw.case import Settings, draw_case
from ..draw.tree import Case
from .run import Outcome, run_case

Tell = Callable[[str], object]
_DEAD = "a dead context"
# After these kinds of failure a process cannot be used again.
_FATAL = ("a crash", "a hang", _DEAD)


def run_cell(case: Case, tell: Tell) -> Outcome:
    """Run a case of a random cell, which does not say how far it is."""
    return run_case(case)


@dataclass(frozen=True)
class Kind:
    """A kind of case that a run of the fuzzer draws.

    Attributes:
        draw: (seed of the run, number, settings) -> a case.
        run: (case, tell) -> its outcome; `tell` may be told what begins. A function of a module.
        seconds: a case that neither ends nor says what begins for so long counts as hanging.
        fresh: whether a case needs a process that has run none before.
    """

    draw: Callable[[int, int, Settings], Any]
    run: Callable[[Any, Tell], Outcome]
    seconds: float
    fresh: Callable[[Any], bool] = lambda case: False


CELLS = Kind(draw_case, run_cell, 240.0)


@dataclass(frozen=True)
class Done:
    """A case and its outcome.

    Attributes:
        number: of the case.
        case: the case.
        outcome: of the case.
        seconds: that it took.
        before: the numbers of the cases that its process had run before.
    """

    number: int
    case: Any
    outcome: Outcome
    seconds: float
    before: tuple[int, ...] = ()


class Worker:
    """A process that runs cases, one at a time.

    Args:
        kind: of its cases.
    """

    def __init__(self, kind: Kind = CELLS) -> None:
        context = _context(kind.run.__module__)
        self.kind = kind
        self.pipe, other = context.Pipe()
        args = other, dict(os.environ), kind.run
        self.process = context.Process(target=_serve, args=args, daemon=True)
        self.process.start()
        other.close()
        self.number = -1
        self.case: Any = None
        self.began = self.heard = 0.0
        self.doing = ""
        self.before: list[int] = []
        self.outcome: Outcome | None = None

    def start(self, number: int, case: Any) -> None:
        """Hand over a case."""
        self.number, self.case, self.began = number, case, time.monotonic()
        self.heard, self.doing, self.outcome = self.began, "", None
        self.pipe.send(case)

    def ended(self) -> bool:
        """Read what the process has said; return whether its case has ended, or hangs."""
        try:
            while self.outcome is None and self.pipe.poll(0):
                said = self.pipe.recv()
                if isinstance(said, Outcome):
                    self.outcome = said
                else:
                    self.doing, self.heard = said, time.monotonic()
        except (EOFError, ConnectionError):
            self.process.join(10)
            code = self.process.exitcode
            reasons = f"the process ended with the code {code}", *self._at()
            self.outcome = Outcome("wrong", reasons, "a crash")
        return self.outcome is not None or self.heard < time.monotonic() - self.kind.seconds

    def finish(self) -> Done:
        """Return the outcome of the case, which has ended or hangs."""
        assert self.case is not None
        now = time.monotonic()
        self.ended()
        outcome = self.outcome
        if outcome is None:
            self.stop()
            reasons = f"no result after {now - self.heard:.0f} s", *self._at()
            outcome = Outcome("wrong", reasons, "a hang")
        done = Done(self.number, self.case, outcome, now - self.began, tuple(self.before))
        self.before.append(self.number)
        self.case = None
        return done

    def _at(self) -> tuple[str, ...]:
        """Return what the case was doing, as a reason, if it has said so."""
        return (f"in {self.doing}",) if self.doing else ()

    def stop(self) -> None:
        """End the process. An idle one ends by itself, so that it frees its semaphores."""
        if self.case is not None:
            self.process.kill()
        self.pipe.close()
        self.process.join(5)
        self.process.kill()
        self.process.join(10)

    def or_another(self, outcome: Outcome) -> Worker:
        """Return this worker, or a new one if the outcome has ended it."""
        if outcome.kind not in _FATAL:
            return self
        if self.process.is_alive():
            self.stop()
        return Worker(self.kind)

    def or_fresh(self, case: Any) -> Worker:
        """Return this worker, or a new one if the case needs a process that has run none."""
        if not (self.before and self.kind.fresh(case)):
            return self
        self.stop()
        return Worker(self.kind)


@cache
def _context(module: str) -> ForkServerContext | SpawnContext:
    """Return the start method: from a process that has imported torch, which takes seconds.

    It has no CUDA context, which would not survive a fork.

    Args:
        module: of what runs cases, imported too if no process was started before.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, module])
    return context


def _serve(
    pipe: Connection, environment: dict[str, str], run: Callable[[Any, Tell], Outcome]
) -> None:
    # Of now, not of when the first process started.
    os.environ.clear()
    os.environ.update(environment)
    while True:
        try:
            case = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            outcome = run(case, pipe.send)
        except Exception as error:
            outcome = Outcome("wrong", (f"the fuzzer failed: {error!r}",), "the fuzzer")
        dead = _dead_context(case)
        if dead:
            pipe.send(Outcome("wrong", (dead, *outcome.reasons), _DEAD))
            return
        pipe.send(outcome)


def _dead_context(case: Any) -> str:
    """Return the GPU's error if a kernel has ended this process's use of it; else an empty text."""
    if case.device == "cuda":
        try:
            torch.cuda.synchronize()
        except Exception as error:
            return str(error)
    return ""
