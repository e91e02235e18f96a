"""The run of `rnnc fuzz`: cases, failures in a shorter form, and a summary."""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ..codegen.cuda.kinds import check_variant
from ..verify.draw.case import Settings
from ..verify.fuzz import report, shrink
from ..verify.fuzz.worker import CELLS, Done, Kind
from ..verify.fuzz.workers import Tries, run_cases, temporary_cache
from ..verify.modules import report as module_report
from ..verify.modules import shrink as module_shrink
from ..verify.modules.run import MODULES
from .console import print_lines
from .gpu import need_gpu
from .progress import stage

DEFAULT_COMPILED = 0.01
_DEFAULT_COUNT = 100
_SHOWN = 3  # failures that are shrunk, one of each kind


@dataclass(frozen=True)
class _Fuzzer:
    """A kind of case: how it is run, shrunk and shown.

    Attributes:
        noun: of a case.
        option: of the command line that asks for it.
        kind: of the cases.
        words: about a case, behind its number.
        smaller: gives smaller cases than one that fails.
        report: writes a case and what is wrong with it as Python.
    """

    noun: str
    option: str
    kind: Kind
    words: Callable[[Any], str]
    smaller: Callable[[Any], Iterator[Any]]
    report: Callable[[Any, tuple[str, ...]], str]


def _cell_words(case: Any) -> str:
    plan = f", {case.variant}" if case.device == "cuda" else ""
    return f"{case.dtype}, {case.through}{plan}"


_CELLS = _Fuzzer("cell", "", CELLS, _cell_words, shrink.smaller_cells, report.report)
_MODULES = _Fuzzer(
    "module", " --modules", MODULES, str, module_shrink.smaller, module_report.report
)


@dataclass(frozen=True)
class _Run:
    """A run of the fuzzer, which its seed repeats."""

    fuzzer: _Fuzzer
    seed: int
    settings: Settings

    def again(self, numbers: Iterable[int]) -> str:
        """Return the command that runs cases again, one after the other in one process."""
        drawn = self.settings
        found = f"rnnc fuzz{self.fuzzer.option} --seed {self.seed}"
        found += f" --device {drawn.device}" if drawn.device != "cpu" else ""
        found += f" --variant {drawn.variant}" if drawn.variant != "any" else ""
        found += f" --compiled {drawn.compiled}" if drawn.compiled != DEFAULT_COMPILED else ""
        return f"{found} --cases {','.join(map(str, numbers))}"


def fuzz(
    seed: int | None,
    count: int | None,
    seconds: float | None,
    device: Literal["cpu", "cuda"],
    variant: str | None,
    compiled: float,
    jobs: int,
    modules: bool = False,
    cases: Sequence[int] = (),
) -> bool:
    """Compare random cells or modules with plain torch loops, and print what was found.

    Args:
        seed: the seed of all random choices; None for a new one.
        count: the number of cases; None for 100, or for as many as `seconds` allow.
        seconds: the time after which no case starts.
        device: where the kernels run.
        variant: the kind of plan on a GPU; None for any kind.
        compiled: the share of calls of cells through torch.compile.
        jobs: processes that run cases at the same time.
        modules: whether modules are drawn, and not cells.
        cases: the numbers of the only cases to run, in one process; empty for those from 0.

    Returns:
        Whether nothing is wrong.

    Raises:
        NoGpuError: the device is "cuda", and there is no GPU.
        PlanError: there is no such kind of plan.
        KeyboardInterrupt: the run was interrupted or asked to terminate; what had ended is printed.
    """
    if variant is not None:
        check_variant(variant)
    if device == "cuda":
        option = " --modules" if modules else ""
        need_gpu(f"rnnc fuzz{option} --device cuda", f"rnnc fuzz{option} --device cpu")
    drawn = random.randrange(2**31) if seed is None else seed
    run = _Run(_MODULES if modules else _CELLS, drawn, Settings(device, variant or "any", compiled))
    if count is None and seconds is None:
        count = _DEFAULT_COUNT
    numbers = cases or (itertools.count() if count is None else range(count))
    jobs = 1 if cases else jobs if count is None else max(1, min(jobs, count))
    print_lines(f"seed {drawn}")
    began, done = time.monotonic(), list[Done]()
    try:
        with _terminated_as_interrupted():
            for each in _run(run, numbers, len(cases) or count, seconds, jobs):
                done.append(each)
    except KeyboardInterrupt:
        print_lines("interrupted; what has ended:")
        _tell_failures(run, done)
        print_lines(summary(done, time.monotonic() - began, run.fuzzer.noun))
        raise
    wrong = _tell_failures(run, done)
    kinds: set[str] = set()
    for each in wrong:
        if each.outcome.kind not in kinds and len(kinds) < _SHOWN:
            kinds.add(each.outcome.kind)
            _show(run, each)
    print_lines(summary(done, time.monotonic() - began, run.fuzzer.noun))
    return not wrong and not _too_many_discards(done)


def _tell_failures(run: _Run, done: list[Done]) -> list[Done]:
    """Print a line for each failure; return the failures."""
    wrong = [each for each in done if each.outcome.verdict == "wrong"]
    for each in wrong:
        first = each.outcome.reasons[0].splitlines()[0]
        words = f"{run.fuzzer.noun} {each.number}, {run.fuzzer.words(each.case)}"
        print_lines(f"failed: {words}: {each.outcome.kind}: {first}")
        print_lines(f"  again: {run.again([each.number])}")
    return wrong


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let a request to terminate, as of a time limit of the system, interrupt the run."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # which alone may ask for it
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(
    run: _Run, numbers: Iterable[int], total: int | None, seconds: float | None, jobs: int
) -> Iterator[Done]:
    """Run cases, in the order in which they end, and show how far the run is."""
    failures = 0
    with stage(f"running random {run.fuzzer.noun}s", total=total) as shown:
        cases = run_cases(run.fuzzer.kind, run.seed, numbers, seconds, run.settings, jobs)
        for each in cases:
            failures += each.outcome.verdict == "wrong"
            shown.advance(f"{failures} failed" if failures else "")
            yield each


def _show(run: _Run, done: Done) -> None:
    """Shrink a failure, and print it. A hang is not shrunk: each one takes as long as its limit."""
    fuzzer, smallest, reasons = run.fuzzer, done.case, done.outcome.reasons
    words = f"# {fuzzer.noun} {done.number}"
    if done.outcome.kind == "a hang":
        print_lines(f"\n{words}, which did not answer:")
        print_lines(fuzzer.report(smallest, reasons))
        return
    with stage(f"shrinking {fuzzer.noun} {done.number}"), temporary_cache():
        tries = Tries(fuzzer.kind, done.outcome.kind)
        try:
            alone = tries(done.case)
            if alone:
                smallest = shrink.shrink(done.case, tries, fuzzer.smaller)
                reasons = tries.outcome.reasons
        finally:
            tries.close()
    if alone:
        print_lines(f"\n{words}, in the smallest form that fails:")
    else:
        print_lines(f"\n{words}, which does not fail alone; its process ran others before it:")
        print_lines(f"# {run.again([*done.before, done.number])}")
    print_lines(fuzzer.report(smallest, reasons))


def _too_many_discards(done: list[Done]) -> bool:
    discards = sum(d.outcome.verdict == "discarded" for d in done)
    return len(done) >= 100 and discards > 0.1 * len(done)


def summary(done: list[Done], seconds: float, noun: str = "cell") -> str:
    """The numbers of cases per verdict, per dtype and plan, and per reason for a discard.

    Args:
        done: all cases.
        seconds: the duration of the run.
        noun: of a case.
    """
    verdicts = Counter(d.outcome.verdict for d in done)
    lines = [
        f"{len(done)} {noun}s in {seconds:.0f} s: {verdicts['right']} right,"
        f" {verdicts['wrong']} wrong, {verdicts['discarded']} discarded"
        f" ({verdicts['discarded'] / max(len(done), 1):.1%}), {verdicts['refused']} without a plan"
    ]
    rows: dict[str, Counter[str]] = {}
    for each in done:
        case = each.case
        plan = f" {case.variant}" if case.device == "cuda" else ""
        row = rows.setdefault(f"{case.device} {case.dtype}{plan}", Counter())
        row[each.outcome.verdict] += 1
    lines += [
        f"  {name}: " + ", ".join(f"{n} {v}" for v, n in sorted(row.items()))
        for name, row in sorted(rows.items())
    ]
    kinds = Counter(d.outcome.kind for d in done if d.outcome.verdict == "discarded")
    lines += [f"  discarded {n}: {kind}" for kind, n in kinds.most_common()]
    return "\n".join(lines)
