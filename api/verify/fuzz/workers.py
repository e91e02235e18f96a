"""Runs cases in separate processes, so that a crash or a hang is a result like any other."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

import torch

from ..draw.case import Settings, draw_case
from ..draw.tree import Case
from .run import Outcome, run_case

_SECONDS = 240.0  # a case that takes longer counts as hanging
_DEAD = "a dead context"
# After these kinds of failure a process cannot be used again.
_FATAL = ("a crash", "a hang", _DEAD)


@dataclass(frozen=True)
class Done:
    """A case and its outcome."""

    number: int
    case: Case
    outcome: Outcome
    seconds: float


class Worker:
    """A process that runs cases, one at a time."""

    def __init__(self) -> None:
        context = _context()
        self.pipe, other = context.Pipe()
        args = other, dict(os.environ)
        self.process = context.Process(target=_serve, args=args, daemon=True)
        self.process.start()
        other.close()
        self.number = -1
        self.case: Case | None = None
        self.began = 0.0

    def start(self, number: int, case: Case) -> None:
        """Hand over a case."""
        self.number, self.case, self.began = number, case, time.monotonic()
        self.pipe.send(case)

    def finish(self) -> Done:
        """The outcome of the case, which has ended or timed out."""
        assert self.case is not None
        seconds = time.monotonic() - self.began
        try:
            if not self.pipe.poll(0):
                raise TimeoutError
            outcome = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join(10)
            code = self.process.exitcode
            outcome = Outcome("wrong", (f"the process ended with the code {code}",), "a crash")
        except TimeoutError:
            self.stop()
            outcome = Outcome("wrong", (f"no result after {seconds:.0f} s",), "a hang")
        done = Done(self.number, self.case, outcome, seconds)
        self.case = None
        return done

    def stop(self) -> None:
        """End the process. An idle one ends by itself, so that it frees its semaphores."""
        if self.case is not None:
            self.process.kill()
        self.pipe.close()
        self.process.join(5)
        self.process.kill()
        self.process.join(10)

    def or_another(self, outcome: Outcome) -> Worker:
        """This worker, or a new one if the outcome has ended it."""
        if outcome.kind not in _FATAL:
            return self
        if self.process.is_alive():
            self.stop()
        return Worker()


@cache
def _context() -> ForkServerContext | SpawnContext:
    """How processes start: from one that has imported torch, which takes seconds.

    It has no CUDA context, which would not survive a fork.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _serve(pipe: Connection, environment: dict[str, str]) -> None:
    # Of now, not of when the first process started.
    os.environ.clear()
    os.environ.update(environment)
    while True:
        try:
            case = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            outcome = run_case(case)
        except Exception as error:
            outcome = Outcome("wrong", (f"the fuzzer failed: {error!r}",), "the fuzzer")
        dead = _dead_context(case)
        if dead:
            pipe.send(Outcome("wrong", (dead, *outcome.reasons), _DEAD))
            return
        pipe.send(outcome)


def _dead_context(case: Case) -> str:
    """The GPU's error if a kernel has made it unusable for this process; otherwise empty."""
    if case.device == "cuda":
        try:
            torch.cuda.synchronize()
        except Exception as error:
            return str(error)
    return ""


def run_cases(
    seed: int, count: int | None, seconds: float | None, settings: Settings, jobs: int
) -> Iterator[Done]:
    """Run cases in several processes, in the order in which they end.

    Args:
        seed: the seed of the run.
        count: the number of cases; None for as many as the time allows.
        seconds: the time after which no case is started.
        settings: what may be drawn.
        jobs: the number of processes.
    """
    began = time.monotonic()
    number = 0
    with temporary_cache():
        idle = [Worker() for _ in range(jobs if count is None else max(1, min(jobs, count)))]
        busy: list[Worker] = []
        try:
            while True:
                late = seconds is not None and time.monotonic() - began > seconds
                while idle and not late and (count is None or number < count):
                    worker = idle.pop()
                    worker.start(number, draw_case(seed, number, settings))
                    busy.append(worker)
                    number += 1
                if not busy:
                    return
                for worker in _ended(busy):
                    busy.remove(worker)
                    done = worker.finish()
                    idle.append(worker.or_another(done.outcome))
                    yield done
        finally:
            for worker in [*idle, *busy]:
                worker.stop()


def _ended(busy: list[Worker]) -> list[Worker]:
    """Wait briefly, and return the workers that have a result, have died, or take too long."""
    waited: Any = wait([w.pipe for w in busy], timeout=1)
    late = time.monotonic() - _SECONDS
    return [w for w in busy if w.pipe in waited or w.began < late]


class temporary_cache:  # noqa: N801
    """A context in which kernels go to a temporary cache folder, since nobody needs them again."""

    def __enter__(self) -> None:
        self.before = os.environ.get("RNNC_CACHE_DIR")
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        os.environ["RNNC_CACHE_DIR"] = self.folder.name

    def __exit__(self, *_: object) -> None:
        if self.before is None:
            os.environ.pop("RNNC_CACHE_DIR", None)
        else:
            os.environ["RNNC_CACHE_DIR"] = self.before
        self.folder.cleanup()


class Tries:
    """Runs cases in one process as long as it lives, for shrinking.

    Args:
        kind: the kind of failure to look for.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.worker = Worker()
        self.outcome = Outcome("right")

    def __call__(self, case: Case) -> bool:
        """Whether the case fails in the same way."""
        self.worker.start(0, case)
        wait([self.worker.pipe], timeout=_SECONDS)
        outcome = self.worker.finish().outcome
        self.worker = self.worker.or_another(outcome)
        found = outcome.verdict == "wrong" and outcome.kind == self.kind
        if found:
            self.outcome = outcome
        return found

    def close(self) -> None:
        """End the process."""
        self.worker.stop()
