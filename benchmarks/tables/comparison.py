"""The tables of all peers in one run, from the files of `rnnc bench --peers`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from figures import missing, newest, source, table

COMMAND = "rnnc bench --peers --device cuda --ahead --limit 220 --json FILE"
_LATER = f"Not in one run with the others yet: `{COMMAND}`."
_UNMEASURED = (
    "This command has not timed attention, fla, accelerated-scan, Haste and torch.compile on a GPU"
    " yet, and TorchRL only by `rnnc bench --ragged`; errors of peers were not measured on a GPU."
    " Tables below that have no figures say so. Haste was built on an H200 with CUDA 13.0, torch"
    " 2.11.0+cu130, on 2026-11-23: `python benchmarks/peers/haste.py`."
)
Case = dict[str, Any]
Contender = dict[str, Any]
UNITS = 768

# The columns of the tables over one size: a title, and the contender's name and dtype.
COLUMNS = {
    "rnnc": ("rnnc auto", "bfloat16"),
    "rnnc.RNN +": ("rnnc.RNN", "bfloat16"),
    "FlashRNN": ("FlashRNN cuda_fused", "bfloat16"),
    "cuDNN, float16 +": ("nn.LSTM", "float16"),
    "cuDNN, bfloat16 +": ("nn.LSTM", "bfloat16"),
    "SDPA *": ("torch SDPA", "bfloat16"),
    "fla chunk_gla *": ("fla chunk_gla", "bfloat16"),
    "fla chunk_hgrn *": ("fla chunk_hgrn", "bfloat16"),
    "accelerated-scan *": ("accelerated-scan", "bfloat16"),
}


def _found(results: Path) -> dict[str, Any] | None:
    found = newest(results, "comparison-*.json") or _swept(results)
    return found and with_flashrnn(found, results)


def _swept(results: Path) -> dict[str, Any] | None:
    """What `sweeps.py` measured of rnnc and cuDNN, until there is a run of all peers."""
    found = newest(results, "sweeps-*.json")
    if found is None:
        return None
    cases = []
    for point in found["points"].values():
        ran = {("rnnc auto", point["dtype"], "wx ready"): point["ours_us"]}
        if "nn" in point:
            ran["nn.LSTM", point["nn"]["dtype"], "with input GEMM"] = point["nn"]["us"]
        sizes = {name: point[name] for name in ("heads", "head_dim", "batch", "steps")}
        own = [
            {"name": name, "dtype": dtype, "terms": terms, "note": "", "peak_mib": None}
            | {phase: took * point["steps"] / 1e3 for phase, took in us.items()}
            | {"first_call_seconds": None}
            for (name, dtype, terms), us in ran.items()
            if isinstance(us, dict)
        ]
        head = {"name": "", "cell": "lstm", "float32": "tf32", "left_out": {}}
        cases.append({**head, **sizes, "contenders": own})
    return found | {"cases": cases, "checks": [], "command": found["command"]}


def with_flashrnn(found: dict[str, Any], results: Path) -> dict[str, Any]:
    """The file with FlashRNN's times from earlier runs, where the run has none.

    Its kernels compile half a minute for each size, so they have runs of their own.
    """
    earlier, sources = {}, {}
    # Of its release 1.0.5, the best kernel of each row; then 1.0.8, in one run with rnnc.
    anchors = newest(results, "cuda-*.json", lambda c: any(r["flashrnn"] for r in c["rows"]))
    for row in anchors["rows"] if anchors else ():
        if row["flashrnn"]:
            earlier[_place(row)] = row["flashrnn"]
            where = f"`benchmarks/anchors.json`, {anchors['anchors_measured_on']}"
            sources[_place(row)] = f"1.0.5: {where}, whose command was not kept"
    for path in sorted(results.glob("cuda-*flashrnn*.json")):
        content = json.loads(path.read_text())
        for row in content["rows"]:
            own = contender_of(row, *COLUMNS["FlashRNN"])
            if own and own["forward_backward"]:
                medians = [own[phase]["median"] for phase in ("forward", "forward_backward")]
                earlier[_place(row)] = medians
                sources[_place(row)] = f"1.0.8: {source(content)[:-1]}"
    used = []
    for case in found["cases"]:
        place, own = _place(case), contender_of(case, *COLUMNS["FlashRNN"])
        if place in earlier and own is None and contender_of(case, *COLUMNS["rnnc"]):
            name, dtype = COLUMNS["FlashRNN"]
            times = dict(zip(("forward", "forward_backward"), earlier[place], strict=True))
            known = {"name": name, "dtype": dtype, "terms": "wx ready", "note": "", **times}
            case["contenders"].append(known | {"peak_mib": None, "first_call_seconds": None})
            used.append(sources[place])
    return found | {"flashrnn": list(dict.fromkeys(used))}


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("cell", "heads", "head_dim", "batch", "steps"))


def sizes(case: Case) -> str:
    """The heads and units, the batch and the steps of a case."""
    return f"{case['heads']} x {case['head_dim']}, B {case['batch']}, T {case['steps']}"


def named(case: Case) -> str:
    """The cell and the sizes, and how products of float32 round if there are any."""
    rounding = {"tf32": ", TF32", "ieee": ", exact"}[case["float32"]]
    return f"{case['cell']}, {sizes(case)}{rounding if 'float32' in case['name'] else ''}"


def times(contender: Contender | None) -> str:
    """Milliseconds of a forward, and of a forward with its backward."""
    if contender is None:
        return "-"
    took = [contender[phase] for phase in ("forward", "forward_backward")]
    shown = " / ".join("failed" if t is None else f"{t:.3g}" for t in took)
    return shown + (" (one head)" if contender["note"].startswith("one head") else "")


def contender_of(case: Case, name: str, dtype: str) -> Contender | None:
    """One of a case's contenders."""
    own = (c for c in case["contenders"] if (c["name"], c["dtype"]) == (name, dtype))
    return next(own, None)


def _over(axis: str, wanted: Callable[[Case], bool]) -> Callable[[Path], str]:
    """A table of the LSTM's cases that differ in one size."""

    def write(results: Path) -> str:
        found = _found(results)
        cases = [c for c in found["cases"] if c["cell"] == "lstm" and wanted(c)] if found else []
        if found is None or not cases:
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
        f" function. {source(found)}{_flashrnn(found)}"
    )
    return note if found["checks"] else f"{note} {_LATER}"


def _flashrnn(found: dict[str, Any]) -> str:
    """Where FlashRNN's times are from, if not from the run."""
    return f" FlashRNN in earlier runs: {'; '.join(found['flashrnn'])}." * bool(found["flashrnn"])


def _main(case: Case) -> bool:
    return bool(case["steps"] >= 128 and case["heads"] * case["head_dim"] == UNITS)


over_head_dim = _over("head_dim", lambda c: _main(c) and (c["batch"], c["steps"]) == (16, 1024))
over_batch = _over(
    "batch", lambda c: _main(c) and c["head_dim"] in (64, 768) and c["steps"] == 1024
)
over_length = _over("steps", lambda c: _main(c) and c["head_dim"] in (64, 768) and c["batch"] == 16)


def single_precision(results: Path) -> str:
    """Layers of one head as torch's users have them, and the loops under torch.compile."""
    return _lines(results, lambda c: c["cell"] in ("lstm", "gru") and "float32" in c["name"])


def loops(results: Path) -> str:
    """Plain loops of torch operations, compiled or not."""
    kept = ("rnnc auto", "eager loop", "torch.compile")
    return _lines(
        results,
        lambda c: any(o["name"].startswith("torch.compile") for o in c["contenders"]),
        lambda o: o["name"].startswith(kept),
    )


def linear(results: Path) -> str:
    """Recurrences without a product of the state."""
    return _lines(results, lambda c: c["cell"] == "hgrn")


def _lines(
    results: Path,
    wanted: Callable[[Case], bool],
    shown: Callable[[Contender], bool] = lambda _: True,
) -> str:
    """A line per contender of some cases, the fastest first."""
    found = _found(results)
    cases = [case for case in found["cases"] if wanted(case)] if found else []
    if found is None or not cases:
        return missing(COMMAND)
    lines = ["cell, heads x units|contender|ms|MiB|first call, s"]
    for case in cases:
        name = named(case)
        own = [c for c in case["contenders"] if shown(c)]
        for each in sorted(own, key=lambda c: c["forward_backward"] or 1e9):
            marks = " +" if each["terms"] == "with input GEMM" else ""
            marks += " *" if each["note"].startswith("another") else ""
            memory = "-" if each["peak_mib"] is None else f"{each['peak_mib']:.0f}"
            words = [name, f"{each['name']}, {each['dtype']}{marks}", times(each), memory]
            lines.append("|".join([*words, f"{each['first_call_seconds'] or 0:.2g}"]))
            name = ""
        lines += [f"{name}|{left}: {why}|-||" for left, why in case["left_out"].items()]
    return f"{table(lines)}\n\n{_legend(found)}"


def picture(results: Path) -> str:
    """The picture of all three."""
    found = _found(results)
    path = found["path"].with_suffix(".png") if found and found["checks"] else None
    if path is None or not path.exists():
        return missing(f"{COMMAND}` and `python benchmarks/comparison_plot.py FILE")
    return f"![milliseconds of each](../benchmarks/results/{path.name})"


def unmeasured(results: Path) -> str:
    """Who did not take part, and why."""
    found = newest(results, "comparison-*.json")
    if found is None:
        return f"{missing(COMMAND)} {_UNMEASURED}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for case in found["cases"]:
        for name, why in case["left_out"].items():
            reasons.setdefault((name, why), []).append(named(case))
        for each in case["contenders"]:
            for why in each["failures"].values():
                key = (f"{each['name']}, {each['dtype']}", why)
                reasons.setdefault(key, []).append(named(case))
    lines = ["contender|cases|the first of them|why"]
    lines += [f"{n}|{len(own)}|{own[0]}|{why}" for (n, why), own in reasons.items()]
    own = table(lines) if reasons else "All contenders ran in all their cases."
    return f"{own}\n\n{source(found)}"


def losses(results: Path) -> str:
    """Where a peer took less time than rnnc, the worst first."""
    found = _found(results)
    if found is None or not found["checks"]:
        return missing(COMMAND)
    pairs = sorted(_pairs(found["cases"]), key=lambda pair: pair[0])
    same = [pair for pair in pairs if not pair[3]["note"]]
    lost = [pair for pair in same if pair[0] < 1]
    text = (
        f"The same function: rnnc is slower in {len(lost)} of {len(same)} pairs of forward +"
        " backward."
    )
    lines = ["case|peer|peer, ms|rnnc, ms|rnnc is faster"]
    for ratio, case, ours, peer in lost:
        words = [named(case), f"{peer['name']}, {peer['dtype']}"]
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
    return "\n\n".join([*parts, source(found) + _flashrnn(found)])


def _pairs(cases: Iterable[Case]) -> Iterable[tuple[float, Case, Contender, Contender]]:
    """How many times as fast rnnc is as each peer on the same terms, with both.

    A peer of another dtype is beside rnnc's only one.
    """
    for case in cases:
        ran = [c for c in case["contenders"] if c["forward_backward"]]
        ours = [c for c in ran if c["name"].startswith("rnnc")]
        for peer in (c for c in ran if not c["name"].startswith("rnnc")):
            own = [c for c in ours if c["terms"] == peer["terms"]]
            own = [c for c in own if c["dtype"] == peer["dtype"]] or own
            if own:
                yield peer["forward_backward"] / own[0]["forward_backward"], case, own[0], peer


def module_losses(results: Path) -> str:
    """Where modules as users call them, or rows with resets and lengths, are slower than a peer."""
    lines = ["case|peer|peer, ms|rnnc, ms|rnnc is faster"]
    read = {
        "users-cuda-*.json": ("rnnc bench --users --ahead", _lost_by_users),
        "ragged-cuda-*.json": ("rnnc bench --ragged", _lost_by_ragged),
    }
    sources = []
    for pattern, (command, lost) in read.items():
        found = newest(results, pattern)
        if found is None:
            sources.append(missing(command))
            continue
        lines += lost(found["cases"])
        sources.append(source(found))
    own = [table(lines)] if len(lines) > 1 else []
    return "\n\n".join([*own, *sources])


def _lost_by_users(cases: list[Case]) -> Iterable[str]:
    for case in sorted((c for c in cases if c["times"]), key=lambda c: c["times"]):
        if case["times"] < 1:
            dtype, peer = min(case["peers"].items(), key=lambda each: each[1]["wall"])
            took = f"{peer['wall']:.3g}|{case['ours']['wall']:.3g}"
            yield f"{case['name']}|torch, {dtype}|{took}|{case['times']:.2f} times"


def _lost_by_ragged(cases: list[Case]) -> Iterable[str]:
    for case in cases:
        for name, ratio in case["times"].items():
            if ratio and ratio < 1 and not name.startswith("rnnc"):
                took = f"{case['sides'][name]['wall']:.3g}|{case['sides']['rnnc']['wall']:.3g}"
                yield f"{case['name']}|{name}|{took}|{ratio:.2f} times"


def accuracy(results: Path) -> str:
    """The errors of those that compute the same, over time and of gradients."""
    found = _found(results)
    if found is None or not found["checks"]:
        return missing(COMMAND)
    lines = ["cell, dtype|contender|h, first eighth|h, last eighth|largest of the gradients"]
    ran = [check for check in found["checks"] if check["errors"]]
    for check in sorted(ran, key=lambda c: (c["cell"], c["dtype"], c["errors"]["h"])):
        gradients = {n: e for n, e in check["errors"].items() if n.startswith("d_")}
        worst = max(gradients, key=lambda name: gradients[name])
        spans = [f"{check['over_time'][place]:.1e}" for place in (0, -1)]
        words = [f"{check['cell']}, {check['dtype']}", check["name"], *spans]
        lines.append("|".join([*words, f"{gradients[worst]:.1e} ({worst})"]))
    units, batch, steps = found["checks"][0]["sizes"]
    note = f"Relative errors against float64; {units} units, B {batch}, T {steps}."
    gone = {c["name"]: c["failure"] for c in found["checks"] if c["failure"]}
    note += "".join(f" {name} did not run: {why}." for name, why in gone.items())
    return f"{table(lines)}\n\n{note} {source(found)}"


def largest(results: Path) -> str:
    """The largest head whose recurrent matrix stays on chip, for each GPU."""
    found = newest(results, "largest-*.json")
    if found is None:
        return missing("rnnc limits --json")
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
}
