"""The tables of `rnnc bench`, and the notes below them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from .results import PHASES, Comparison, Phase, Result
from .table import pair, plain_table


def comparison_table(found: Comparison, device: str) -> Table:
    """The contenders of a row, one per line."""
    cuda = device == "cuda"
    columns = ["forward", "+ backward", "inference", "us per step", "x peer"]
    columns += ["planned us", "peak MiB"] if cuda else []
    columns += ["target"] if cuda and found.row.target else []
    table = plain_table(f"{found.row}: ms", ["contender"], columns)
    for result in found.results:
        contender = result.contender
        cells = [_time(result, phase) for phase in PHASES]
        cells += [_us(result, found.row.steps), _ratios(found, result)]
        if cuda:
            cells.append(pair(result.planned or (), ".2f", 1e-3))
            cells.append("" if result.peak_mib is None else f"{result.peak_mib:.0f}")
            cells += [_reached(found, result)] if found.row.target else []
        input_gemm = "" if contender.terms == "wx ready" else " +"
        name = f"{contender.name}, {contender.dtype}{input_gemm}"
        if contender.variant == "auto" and result.runs_as:
            name += f" ({result.runs_as})"
        table.add_row(escape(name), *cells, style="cyan" if contender.ours else "")
    return table


def _time(result: Result, phase: Phase) -> str:
    figure = result.figures.get(phase)
    return f"{figure.median:.3g}" if figure else "failed"


def _us(result: Result, steps: int) -> str:
    """Microseconds per step: of the forward, and of the backward alone."""
    return pair(result.nanoseconds(steps), ".2f", 1e-3)


def _reached(found: Comparison, result: Result) -> str:
    return " / ".join("yes" if ok else "no" for ok in found.reached(result).values())


def _ratios(found: Comparison, result: Result) -> str:
    """For rnnc, the time over the best peer's: forward, forward with backward."""
    if not result.contender.ours:
        return ""
    shown = []
    for phase in PHASES[:2]:
        peer, figure = found.best_peer(result.contender, phase), result.figures.get(phase)
        shown.append(f"{figure.median / peer:.2f}" if peer and figure else "-")
    return "" if set(shown) == {"-"} else " / ".join(shown)


def summary_table(rows: Sequence[Comparison]) -> Table:
    """A line per row on a GPU: the time of `"auto"`'s plan, its estimate, and the peers'."""
    title = "forward / forward + backward, ms; us per step forward / backward"
    with_targets = any(found.row.target for found in rows)
    targets = ("target", "reached") if with_targets else ()
    columns = ("ms", *targets, "us per step", "planned us")
    table = plain_table(title, ["row"], (*columns, "fastest of ours", "nn float16 +", "best peer"))
    for found in rows:
        ours = [r for r in found.results if r.contender.variant and r.figures]
        auto = next((r for r in ours if r.contender.variant == "auto"), None)
        if auto is None:
            continue
        target = found.row.target
        same = [r for r in ours if r.contender.dtype == auto.contender.dtype]
        fastest = min(same, key=lambda r: sum(f.median for f in r.figures.values()))
        nn = [r for r in found.results if r.contender.name.startswith("nn.")]
        half = next((r for r in nn if r.contender.dtype == "float16"), None)
        peers = [found.best_peer(auto.contender, p) for p in PHASES[:2]]
        goal = [pair(target or (), "g"), _reached(found, auto)]
        table.add_row(
            f"{found.row} ({auto.runs_as}, {auto.contender.dtype})",
            _pair(auto),
            *(goal if with_targets else ()),
            _us(auto, found.row.steps),
            pair(auto.planned or (), ".2f", 1e-3),
            f"{fastest.contender.variant} {_pair(fastest)}",
            f"{_pair(half)}{'*' * bool(half.contender.note)}" if half else "",
            pair(peers, ".3g"),
        )
    return table


def _pair(result: Result) -> str:
    return " / ".join(_time(result, phase) for phase in PHASES[:2])


def notes(found: Comparison) -> str:
    """The notes below a table: terms, anchors, first calls, failures, and who was left out."""
    row, lines = found.row, ["  + with its input GEMM; us per step: forward / backward"]
    pairs = {"target": row.target, "FlashRNN": row.flashrnn, "cuDNN float16": row.cudnn}
    known = [f"{name} {pair(times, 'g')}" for name, times in pairs.items() if times]
    if known:
        lines.append(f"  anchors: {', '.join(known)}" + (f" ({row.note})" if row.note else ""))
    for result in found.results:
        contender = result.contender
        name = f"{contender.name}, {contender.dtype}"
        if contender.note:
            lines.append(f"  {name}: {contender.note}, so it is not a peer of the row")
        if result.first_seconds is not None and result.first_seconds > 1:
            warm_up = result.warm_ups.get("forward_backward")
            step = warm_up.first if warm_up else 0
            lines.append(
                f"  {name}: first result after {result.first_seconds:.1f} s,"
                f" first training step in {step:.1f} s more"
            )
        for phase, reason in result.failures.items():
            what = "failed" if phase == "prepare" else f"{phase.replace('_', ' + ')} failed"
            lines.append(f"  {name}: {what}: {reason}")
    for name, seconds in found.first.items():
        shown = [f"{k.replace('_', ' ')} {_seconds(v)}" for k, v in seconds.items()]
        lines.append(f"  first result of {name}: {', '.join(shown)}")
    lines += [f"  left out: {name}: {reason}" for name, reason in found.left_out.items()]
    return "\n".join(lines)


def _seconds(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f} s"
