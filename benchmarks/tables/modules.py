"""The tables of modules: users' cases, their plans, and rows of several lengths and with resets."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

from figures import missing, newest, of_newest, source, table

_WORST_PLANS = 10  # of the choices of plans, that the page shows
# The sizes of a tiling that the page shows.
_SHORT = re.compile(
    r"\d+ batch rows|\d+ phases|\d+ blocks? of \d+ units|clusters of \d+|\d+ warps"
    r"|matrix library"
)


@of_newest("users-cuda-*.json", "rnnc bench --users --ahead")
def users(found: dict[str, Any]) -> str:
    """The table of the users' cases on a GPU, the slowest against torch first."""
    cases = sorted((c for c in found["cases"] if c["times"]), key=lambda case: case["times"])
    lines = ["case|wall-clock, ms: rnnc / torch|times|GPU, ms: rnnc / torch|times"]
    for case in cases:
        both = [_beside_torch(case, case["ours"], clock) for clock in ("wall", "device")]
        times = [f"{case[k]:.2f}" for k in ("times", "device_times")]
        lines.append("|".join([case["name"], both[0], times[0], both[1], times[1]]))
    walls, devices = ([case[k] for case in cases] for k in ("times", "device_times"))
    slower = sum(each < 1 for each in walls)
    note = (
        f"Geometric mean: {statistics.geometric_mean(walls):.2f} times torch by wall-clock and"
        f" {statistics.geometric_mean(devices):.2f} times by GPU time; worst case:"
        f" {walls[0]:.2f} times ({cases[0]['name']}); {slower} of {len(cases)} cases"
        f" {'is' if slower == 1 else 'are'} slower by wall-clock."
    )
    failures = [case["failure"] for case in found["cases"] if not case["times"]]
    late = sum("time limit" in failure for failure in failures)
    if failures:
        note += f" Not measured: {len(failures) - late} that rnnc cannot run"
        note += f", and {late} that the run's time limit cut." if late else "."
    steps = [
        f"- {case['name']}: {_beside_torch(case, case['stepper'], 'wall')} ms,"
        f" {case['stepper_times']:.2f} times"
        for case in cases
        if case.get("stepper")
    ]
    if steps:
        steps = ["", "`rnn.stepper` in the cases of single steps, by wall-clock:", "", *steps]
    return "\n".join([note, "", table(lines), *steps, "", source(found)])


def _beside_torch(case: dict[str, Any], side: dict[str, Any], clock: str) -> str:
    """Milliseconds of a side of ours and of the faster of torch's."""
    peer = min(case["peers"].values(), key=lambda each: each["wall"])
    return f"{side[clock]:.3g} / {peer[clock]:.3g}"


@of_newest("plans-*.json", "rnnc bench --users --plans --json FILE")
def plans(found: dict[str, Any]) -> str:
    """What the choices of plans for the users' cases come to, and the worst of them."""
    told = found["summary"]
    mean, error = told["geometric mean of auto / best"], told["median error of the estimate"]
    note = (
        f"What `auto` chose takes {mean:.3f} times as long as the fastest tiling in the geometric"
        f" mean of {told['kernels']} kernels, and {told['worst']:.2f} times at worst"
        f" ({told['worst case']}); {told['above 1.1']} are more than 10 % slower than the fastest."
        f" The median error of the estimate is {100 * error:.0f} %."
    )
    lines = ["case, direction|`auto`|ms (by the model)|fastest|ms (by the model)|times"]
    kernels = [kernel for kernel in found["kernels"] if kernel["ratio"]]
    for kernel in sorted(kernels, key=lambda each: -each["ratio"])[:_WORST_PLANS]:
        auto = kernel["tilings"][kernel["chosen"]]
        best = min((t for t in kernel["tilings"] if t["took"]), key=lambda t: t["took"])
        cells = [f"{kernel['case']}, {kernel['direction']}", *_tiling(auto), *_tiling(best)]
        lines.append("|".join([*cells, f"{kernel['ratio']:.2f}"]))
    return f"{note}\n\n{table(lines)}\n\n{source(found)}"


def _tiling(tiling: dict[str, Any]) -> tuple[str, str]:
    """A tiling in short words, and its time beside its estimate."""
    short = ", ".join(match[0] for match in _SHORT.finditer(tiling["sizes"]))
    return f"{tiling['kind']}: {short}", f"{tiling['took']:.3g} ({tiling['estimate']:.3g})"


def ragged(results: Path) -> str:
    """What each contender of each case took, and how many times as fast rnnc is: GPU, then CPU."""
    files = [newest(results, f"ragged-{device}-*.json") for device in ("cuda", "cpu")]
    return "\n\n".join(_ragged(found) for found in files if found) or missing("rnnc bench --ragged")


def _ragged(found: dict[str, Any]) -> str:
    """The table of one file."""
    lines = ["case|contender|wall-clock, ms|GPU, ms|rnnc is faster"]
    for case in found["cases"]:
        name = case["name"]
        for contender, side in case["sides"].items():
            times, queued = case["times"].get(contender), side["device"]
            shown = f"{times:.2f} times" if times else ""
            cells = [f"{side['wall']:.3g}", f"{queued:.3g}" if queued else "-", shown]
            lines.append("|".join([name, contender, *cells]))
            name = ""
        for contender, failure in case["failures"].items():
            lines.append("|".join([name, f"{contender}: did not run ({failure[:60]})", "", "", ""]))
            name = ""
    return f"{table(lines)}\n\n{source(found)}"
