"""The tables of all peers in one run, from the files of `rnnc bench --peers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from figures import missing, newest, of_newest, source, table
from modules import results_of
from peers_files import (
    COLUMNS,
    COMMAND,
    UNITS,
    Case,
    Contender,
    contender_of,
    named,
    sizes,
    with_flashrnn,
)
from rnnc.bench.drawing import source_of
from rnnc.bench.results import called, median_of
from rnnc.bench.suites.checks import Check
from rnnc.bench.table import markdown
from rnnc.bench.tables import both_times as times
from rnnc.bench.tables import cases_table, checks_table

_FILES = "comparison-*.json"
_of_run = of_newest(_FILES, COMMAND, add=with_flashrnn)


def _over(axis: str, wanted: Callable[[Case], bool]) -> Callable[[Path], str]:
    """A table of the LSTM's cases that differ in one size."""

    @_of_run
    def write(found: dict[str, Any]) -> str:
        cases = [c for c in found["cases"] if c["cell"] == "lstm" and wanted(c)]
        if not cases:
            return missing(COMMAND)
        cases.sort(key=lambda case: (-case["heads"], case[axis]))
        there = {
            title: key
            for title, key in COLUMNS.items()
            if any(contender_of(case, *key) for case in cases)
        }
        lines = ["|".join(["heads x units", *there])]
        for case in cases:
            shown = [times(contender_of(case, *key)) for key in there.values()]
            lines.append("|".join([sizes(case), *shown]))
        return f"{table(lines)}\n\n{_legend(found)}"

    return write


def _legend(found: dict[str, Any]) -> str:
    note = (
        "ms on the GPU: forward / forward + backward. + with the product of the input, * another"
        " function."
    )
    return f"{note} {_run(found)}"


def _run(found: dict[str, Any]) -> str:
    """The machine and the date, with a link to the commands, which are long."""
    return f"{found['machine']['device']}, {found['date']}; [commands](#runs)."


@_of_run
def runs(found: dict[str, Any]) -> str:
    """The machine, the date and the commands of the tables, and where FlashRNN's times are from."""
    lines = [f"`benchmarks/results/{found['path'].name}`: {source_of(found)}, by", ""]
    lines += [f"- `{command}`" for command in found.get("commands", [found["command"]])]
    if found["flashrnn"]:
        lines += ["", "FlashRNN's times are of earlier runs:", ""]
        lines += [f"- {each}" for each in found["flashrnn"]]
    return "\n".join(lines)


def _main(case: Case) -> bool:
    return bool(case["steps"] >= 128 and case["heads"] * case["head_dim"] == UNITS)


over_head_dim = _over("head_dim", lambda c: _main(c) and (c["batch"], c["steps"]) == (16, 1024))
over_batch = _over(
    "batch", lambda c: _main(c) and c["head_dim"] in (64, 768) and c["steps"] == 1024
)
over_length = _over("steps", lambda c: _main(c) and c["head_dim"] in (64, 768) and c["batch"] == 16)


def _lines(
    wanted: Callable[[Case], bool], shown: Callable[[Contender], bool] = lambda _: True
) -> Callable[[Path], str]:
    """A table with a line per contender of some cases, the fastest first."""

    @_of_run
    def write(found: dict[str, Any]) -> str:
        cases = [case for case in found["cases"] if wanted(case)]
        if not cases:
            return missing(COMMAND)
        own = [
            case
            | {
                "name": named(case),
                "contenders": sorted(filter(shown, case["contenders"]), key=_both),
            }
            for case in cases
        ]
        columns = ["MiB", "first call, s", "rnnc is faster"]
        return f"{markdown(cases_table(own, columns))}\n\n{_legend(found)}"

    return write


def _both(contender: Contender) -> float:
    return median_of(contender, "forward_backward") or 1e9


# Layers of one head as torch's users have them.
single_precision = _lines(lambda c: c["cell"] in ("lstm", "gru") and "float32" in c["name"])
# Plain loops of torch operations, compiled or not.
loops = _lines(
    lambda c: any(o["name"].startswith("torch.compile") for o in c["contenders"]),
    lambda o: o["name"].startswith(("rnnc auto", "eager loop", "torch.compile")),
)
# Recurrences without a product of the state.
linear = _lines(lambda c: c["cell"] == "hgrn")


@_of_run
def picture(found: dict[str, Any]) -> str:
    """The picture of all three."""
    path = found["path"].with_suffix(".png")
    if not path.exists():
        return missing(f"{COMMAND}` and `python benchmarks/comparison_plot.py FILE")
    return f"![milliseconds of each](../benchmarks/results/{path.name})"


@of_newest(_FILES, COMMAND)
def unmeasured(found: dict[str, Any]) -> str:
    """Who did not take part, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for case in found["cases"]:
        for name, why in case["left_out"].items():
            reasons.setdefault((name, why), []).append(named(case))
        for each in case["contenders"]:
            for why in each["failures"].values():
                reasons.setdefault((called(each), why), []).append(named(case))
    lines = ["contender|cases|the first of them|why"]
    lines += [f"{n}|{len(own)}|{own[0]}|{why}" for (n, why), own in reasons.items()]
    own = table(lines) if reasons else "All contenders ran in all their cases."
    return f"{own}\n\n{_run(found)}"


@_of_run
def losses(found: dict[str, Any]) -> str:
    """Where a peer took less time than rnnc, the worst first."""
    pairs = sorted(_pairs(found["cases"]), key=lambda pair: pair[0])
    same = [pair for pair in pairs if not pair[3]["note"]]
    lost = [pair for pair in same if pair[0] < 1]
    text = (
        f"The same function: rnnc is slower in {len(lost)} of {len(same)} pairs of forward +"
        " backward."
    )
    lines = ["case|peer|peer, ms|rnnc, ms|rnnc is faster"]
    for ratio, case, ours, peer in lost:
        words = [named(case), called(peer)]
        lines.append("|".join([*words, times(peer), times(ours), f"{ratio:.2f} times"]))
    parts = [text, table(lines)] if lost else [text]
    others = [pair for pair in pairs if pair[3]["note"].startswith("another")]
    lines = ["another function|faster than rnnc in|the worst case|its ms|rnnc, ms|rnnc is faster"]
    for name in dict.fromkeys(pair[3]["name"] for pair in others):
        own = [pair for pair in others if pair[3]["name"] == name]
        ratio, case, ours, peer = own[0]
        count = f"{sum(pair[0] < 1 for pair in own)} of {len(own)}"
        words = [name, count, named(case), times(peer), times(ours)]
        lines.append("|".join([*words, f"{ratio:.2f} times"]))
    parts += [table(lines)] if len(lines) > 1 else []
    return "\n\n".join([*parts, _run(found)])


def _pairs(cases: Iterable[Case]) -> Iterable[tuple[float, Case, Contender, Contender]]:
    """How many times as fast rnnc is as each peer on the same terms, with both.

    A peer of another dtype is beside rnnc's only one.
    """
    for case in cases:
        ran = [c for c in case["contenders"] if median_of(c, "forward_backward")]
        ours = [c for c in ran if c["name"].startswith("rnnc")]
        for peer in (c for c in ran if not c["name"].startswith("rnnc")):
            own = [c for c in ours if c["terms"] == peer["terms"]]
            own = [c for c in own if c["dtype"] == peer["dtype"]] or own
            if own:
                yield _both(peer) / _both(own[0]), case, own[0], peer


def module_losses(results: Path) -> str:
    """Where modules as users call them, or rows with resets and lengths, are slower than a peer."""
    lines, sources = ["case|peer|peer, ms|rnnc, ms|rnnc is faster"], []
    for name, command, of in (
        ("users", "rnnc bench --users --ahead", "torch, "),
        ("ragged", "rnnc bench --ragged", ""),
    ):
        found = newest(results, f"{name}-cuda-*.json")
        for result in results_of(found) if found else ():
            for peer, side in result.peers.items():
                ratio = result.faster_than(peer) or 1
                if ratio < 1:
                    took = f"{side.wall:.3g}|{result.ours.wall:.3g}"
                    lines.append(f"{result.case}|{of}{peer}|{took}|{ratio:.2f} times")
        sources.append(source(found) if found else missing(command))
    return "\n\n".join([*([table(lines)] if len(lines) > 1 else []), *sources])


@_of_run
def accuracy(found: dict[str, Any]) -> str:
    """The errors of those that compute the same, over time and of gradients."""
    ran = [Check(**check) for check in found["checks"] if check["errors"]]
    ran.sort(key=lambda c: (c.cell, c.dtype, c.errors["h"]))
    units, batch, steps = found["checks"][0]["sizes"]
    note = f"Relative errors against float64; {units} units, B {batch}, T {steps}."
    gone = {c["name"]: c["failure"] for c in found["checks"] if c["failure"]}
    note += "".join(f" {name} did not run: {why}." for name, why in gone.items())
    return f"{markdown(checks_table(ran))}\n\n{note} {_run(found)}"


@of_newest("largest-*.json", "rnnc limits --json")
def largest(found: dict[str, Any]) -> str:
    """The largest head whose recurrent matrix stays on chip, for each GPU."""
    kinds = list(found["gpus"][0]["largest"])
    lines = ["|".join(["GPU", "SMs", *kinds])]
    for gpu in found["gpus"]:
        dims = (str(dim or "-") for dim in gpu["largest"].values())
        lines.append(
            "|".join([f"{gpu['name']} ({gpu['arch']})", str(gpu["multiprocessors"]), *dims])
        )
    note = f"Units of one head, {found['cell']}, {found['dtype']}; rnnc {found['rnnc']}"
    return f"{table(lines)}\n\n{note}, {found['date']}: `{found['command']}`."


TABLES: dict[str, Callable[[Path], str]] = {
    "unmeasured": unmeasured,
    "losses": losses,
    "module_losses": module_losses,
    "comparison_picture": picture,
    "over_head_dim": over_head_dim,
    "over_batch": over_batch,
    "over_length": over_length,
    "single_precision": single_precision,
    "loops": loops,
    "linear": linear,
    "accuracy": accuracy,
    "largest": largest,
    "comparison_runs": runs,
}
