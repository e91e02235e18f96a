"""Says where two trees of rnnc differ: bits, sources, binaries, times and memory.

    make same BASE=<commit>

runs the recorded cases with the package of that commit and with this one, in turns.
"""

from __future__ import annotations

import math
import shutil
import statistics
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from trees import Record, Tree, copy_package

_BATCH = 25  # cases per process
# What a tree may take of the other's, in the geometric mean of all cases and in any one of them.
_BOUNDS = {"host": (1.05, 1.5), "gpu": (1.02, 1.2), "peak": (1.02, 1.02)}
_NOISE = {"host": 100.0, "gpu": 20.0, "peak": 0.0}  # us, or bytes: less in one case is noise


def differences(base: list[Record], head: list[Record]) -> list[str]:
    """Return what differs in the results of cases, a line for each.

    Args:
        base: the records of one tree.
        head: those of the other, of the same cases.
    """
    lines = []
    for one, other in zip(base, head, strict=True):
        case = f"case {one['case']}, {one['text']}"
        if one.get("error") != other.get("error"):
            lines.append(f"{case}: {one.get('error', 'runs')} -> {other.get('error', 'runs')}")
            continue
        before, after = one.get("digests", {}), other.get("digests", {})
        wrong = [name for name in before | after if before.get(name) != after.get(name)]
        if wrong:
            lines.append(f"{case}: {len(wrong)} of {len(before)} results, first {wrong[0]}")
    return lines


def slower(rounds: list[tuple[list[Record], list[Record]]]) -> tuple[list[str], Table]:
    """Return what takes longer or more memory than before, and a table of all ratios.

    Args:
        rounds: the records of both trees, in each round.
    """
    texts = {one["case"]: one["text"] for base, _ in rounds for one in base}
    table, lines = Table("", "cases", "geometric mean", "worst", "its case"), []
    for kind, (mean_bound, worst_bound) in _BOUNDS.items():
        times: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for base, head in rounds:
            for one, other in zip(base, head, strict=True):
                if kind in one and kind in other:
                    times[one["case"]].append((one[kind], other[kind]))
        ratios = {}
        for case, pairs in times.items():
            before, after = (statistics.median(side) for side in zip(*pairs, strict=True))
            # The rounds agree that it is slower, or it is noise.
            least = min(b / max(a, 1e-9) for a, b in pairs)
            small = after - before <= _NOISE[kind]
            ratios[case] = after / max(before, 1e-9), 1.0 if small else least
        if not ratios:
            continue
        mean = math.exp(statistics.fmean(math.log(max(r, 1e-9)) for r, _ in ratios.values()))
        worst = max(ratios, key=lambda case: ratios[case][1])
        table.add_row(
            *(kind, str(len(ratios)), f"{mean:.3f}", f"{ratios[worst][0]:.3f}", texts[worst])
        )
        if mean > mean_bound:
            lines.append(f"{kind}: {mean:.3f} times as much in the mean, {mean_bound} allowed")
        for case, (ratio, least) in ratios.items():
            if least > worst_bound:
                lines.append(f"{kind}: {ratio:.2f} times as much in case {case}, {texts[case]}")
    return lines, table


def of_kernels(base: Tree, head: Tree) -> list[str]:
    """Return which sources and binaries differ, a line for each.

    Args:
        base: one tree.
        head: the other.
    """
    before, after = base.sources(), head.sources()
    lines = [f"source only before: {name}" for name in sorted(before - after)]
    lines += [f"source only after: {name}" for name in sorted(after - before)]
    before_of, after_of = base.binaries(), head.binaries()
    for name in sorted(before_of | after_of):
        if before_of.get(name) != after_of.get(name):
            lines.append(f"binaries of {name} differ")
    return lines


def _turns(
    trees: list[Tree], cases: tuple[str, int, int, int], rounds: int
) -> list[tuple[list[Record], list[Record]]]:
    """Return the records of both trees in each round, which they begin in turn."""
    found = []
    for number in range(rounds):
        turns = trees if number % 2 == 0 else trees[::-1]
        records = {tree: tree.run(*cases) for tree in turns}
        found.append((records[trees[0]], records[trees[1]]))
    return found


def main(
    base: Annotated[Path, typer.Argument(help="A checkout of before.")],
    head: Annotated[Path, typer.Argument(help="A checkout of now.")],
    work: Annotated[Path, typer.Option(help="A folder for packages, kernels and records.")],
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    first: Annotated[int, typer.Option(min=0, help="The first case.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="How many cases.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="How often each side is run.")] = 3,
    repeat: Annotated[int, typer.Option(min=0, help="Timed calls per case; 0 for none.")] = 7,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at once; 1 for times.")] = 1,
) -> None:
    """Run the cases with both packages, and fail if anything differs."""
    if jobs > 1 and repeat:
        raise typer.BadParameter("processes beside each other change times: --repeat 0 has none")
    console = Console(soft_wrap=True)
    trees = []
    for name, checkout in (("base", base), ("head", head)):
        shutil.rmtree(work / name, ignore_errors=True)
        trees.append(Tree(work.resolve() / name / "package", work.resolve() / name))
        copy_package(checkout, trees[-1].package)
    lines, failed = list[str](), list[str]()

    def tell(found: list[str]) -> None:
        lines.extend(found)
        for line in found:
            console.print(line, markup=False)

    timed: list[tuple[list[Record], list[Record]]] = []
    with ThreadPoolExecutor(jobs) as pool:
        begun = []
        for begin in range(first, first + count, _BATCH):
            end = min(begin + _BATCH, first + count)
            batch = pool.submit(_turns, trees, (device, begin, end, repeat), rounds)
            begun.append((begin, end, batch))
        for begin, end, batch in begun:
            found = batch.result()
            timed += found
            wrong = {line for each in found for line in differences(*each)}
            failed += [record["text"] for record in found[-1][1] if "error" in record]
            console.print(f"cases {begin} to {end - 1}: {len(wrong)} differences")
            tell(sorted(wrong))
    tell(of_kernels(*trees))
    if repeat:
        found_slower, table = slower(timed)
        console.print(table)
        tell(found_slower)
    for text in failed:
        console.print(f"ends with an error: {text}", markup=False)
    sources = len(trees[1].sources())
    told = f"{count} cases on {device}, {len(failed)} with an error, {sources} sources"
    console.print(f"{told}: {len(lines)} differences")
    raise typer.Exit(code=1 if lines else 0)


if __name__ == "__main__":
    typer.run(main)
