"""What `rnnc fuzz` does: it runs cases, shrinks failures and prints a summary."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Literal

from ..codegen.cuda.kinds import check_variant
from ..verify.draw.case import Settings
from ..verify.fuzz.report import report
from ..verify.fuzz.shrink import shrink
from ..verify.fuzz.workers import Done, Tries, run_cases, temporary_cache
from .console import print_lines
from .gpu import need_gpu
from .progress import stage

_DEFAULT_COUNT = 100
_SHOWN = 3  # failures that are shrunk, one of each kind


def fuzz(
    seed: int | None,
    count: int | None,
    seconds: float | None,
    device: Literal["cpu", "cuda"],
    variant: str | None,
    compiled: float,
    jobs: int,
) -> bool:
    """Compare random cells and calls with plain torch loops, and print what was found.

    Args:
        seed: the seed of all random choices; None for a new one.
        count: the number of cells; None for 100, or for as many as `seconds` allow.
        seconds: the time after which no cell starts.
        device: where the kernels run.
        variant: the kind of plan on a GPU; None for any kind.
        compiled: the share of calls through torch.compile.
        jobs: processes that run cells at the same time.

    Returns:
        Whether nothing is wrong.

    Raises:
        NoGpuError: the device is "cuda", and there is no GPU.
        PlanError: there is no such kind of plan.
    """
    if variant is not None:
        check_variant(variant)
    if device == "cuda":
        need_gpu("rnnc fuzz --device cuda", "rnnc fuzz --device cpu")
    drawn = random.randrange(2**31) if seed is None else seed
    count = _DEFAULT_COUNT if count is None and seconds is None else count
    settings = Settings(device, variant or "any", compiled)
    print_lines(f"seed {drawn}")
    began = time.monotonic()
    done = _run(drawn, count, seconds, settings, jobs)
    wrong = [each for each in done if each.outcome.verdict == "wrong"]
    for each in wrong:
        first = each.outcome.reasons[0].splitlines()[0]
        print_lines(f"failed: cell {each.number}, {_words(each)}: {each.outcome.kind}: {first}")
    kinds: set[str] = set()
    for each in wrong:
        if each.outcome.kind not in kinds and len(kinds) < _SHOWN:
            kinds.add(each.outcome.kind)
            _show(each)
    print_lines(summary(done, time.monotonic() - began))
    return not wrong and not _too_many_discards(done)


def _run(
    seed: int, count: int | None, seconds: float | None, settings: Settings, jobs: int
) -> list[Done]:
    done: list[Done] = []
    with stage("running random cells", total=count) as shown:
        for each in run_cases(seed, count, seconds, settings, jobs):
            done.append(each)
            failures = sum(d.outcome.verdict == "wrong" for d in done)
            shown.advance(f"{failures} failed" if failures else "")
    return done


def _words(done: Done) -> str:
    case = done.case
    plan = f", {case.variant}" if case.device == "cuda" else ""
    return f"{case.dtype}, {case.through}{plan}"


def _show(done: Done) -> None:
    """Shrink a failure, and print it."""
    with stage(f"shrinking cell {done.number}"), temporary_cache():
        tries = Tries(done.outcome.kind)
        tries.outcome = done.outcome
        try:
            smallest = shrink(done.case, tries)
        finally:
            tries.close()
    print_lines(f"\n# cell {done.number}, in the smallest form that fails:")
    print_lines(report(smallest, tries.outcome.reasons))


def _too_many_discards(done: list[Done]) -> bool:
    discards = sum(d.outcome.verdict == "discarded" for d in done)
    return len(done) >= 100 and discards > 0.1 * len(done)


def summary(done: list[Done], seconds: float) -> str:
    """The numbers of cases per verdict, per dtype and plan, and per reason for a discard.

    Args:
        done: all cases.
        seconds: the duration of the run.
    """
    verdicts = Counter(d.outcome.verdict for d in done)
    lines = [
        f"{len(done)} cells in {seconds:.0f} s: {verdicts['right']} right,"
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
