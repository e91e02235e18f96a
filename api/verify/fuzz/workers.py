"""Runs cases in separate processes: those of a run, and those of shrinking."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import wait
from typing import Any

from ..draw.case import Settings
from .run import Outcome
from .worker import Done, Kind, Worker


def run_cases(
    kind: Kind,
    seed: int,
    numbers: Iterable[int],
    seconds: float | None,
    settings: Settings,
    jobs: int,
) -> Iterator[Done]:
    """Run cases in several processes, in the order in which they end.

    Args:
        kind: of the cases.
        seed: the seed of the run.
        numbers: of the cases, perhaps without end.
        seconds: the time after which no case is started.
        settings: what may be drawn.
        jobs: the number of processes.
    """
    began = time.monotonic()
    left = iter(numbers)
    with temporary_cache():
        idle = [Worker(kind) for _ in range(jobs)]
        busy: list[Worker] = []
        try:
            while True:
                late = seconds is not None and time.monotonic() - began > seconds
                while idle and not late and (number := next(left, None)) is not None:
                    case = kind.draw(seed, number, settings)
                    worker = idle.pop().or_fresh(case)
                    worker.start(number, case)
                    busy.append(worker)
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
    """Wait briefly, and return the workers that have a result, have died, or hang."""
    wait([w.pipe for w in busy], timeout=1)
    return [w for w in busy if w.ended()]


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
        kind: of the cases.
        failure: the kind of failure to look for.
    """

    def __init__(self, kind: Kind, failure: str) -> None:
        self.failure = failure
        self.worker = Worker(kind)
        self.outcome = Outcome("right")

    def __call__(self, case: Any) -> bool:
        """Return True if the case fails in the same way."""
        self.worker = self.worker.or_fresh(case)
        self.worker.start(0, case)
        while not _ended([self.worker]):
            pass
        outcome = self.worker.finish().outcome
        self.worker = self.worker.or_another(outcome)
        found = outcome.verdict == "wrong" and outcome.kind == self.failure
        if found:
            self.outcome = outcome
        return found

    def close(self) -> None:
        """End the process."""
        self.worker.stop()
