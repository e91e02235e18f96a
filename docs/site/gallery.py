"""The gallery: a picture and the report of every cell of the library."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import graph
import rnnc
from rnnc.cellspec.library import NAMES
from rnnc.cli.report import command_of
from rnnc.codegen.cuda.limits import limits_of
from rnnc.report.contents import Report
from rnnc.report.page import page_of

SHAPE = rnnc.Shape(12, 64)
GPU = "H200"
_PROCESSES = 2

_HEAD = f"""# Gallery

For readers who look for a cell. Each picture shows the equations of one step: gates and states
enter on the left, the new states leave on the right. A gate is <span class="key gate">g</span>,
a state <span class="key state">h</span>, a learned parameter or a constant
<span class="key param">p</span>, a function <span class="key function">tanh</span>, and a new
state <span class="key new">h′</span>.

The report of a cell that CUDA kernels run has its equations, its plan, the estimated time of a
step, and which lines of the kernels each term became. The reports are for {SHAPE.heads} heads of
{SHAPE.head_dim} units in bfloat16 on an {GPU}, and their times are estimates. `rnnc report` writes
the same page for any cell, size and GPU.
"""


class Facts(NamedTuple):
    """What the gallery says of a cell.

    Attributes:
        name: of the cell.
        doc: the first line of its docstring.
        operations: of the equations, forward and backward; empty without a report.
        kinds: of the kernels, forward and backward; empty without a plan.
        nanoseconds: estimated per step, forward and backward.
        picture: its SVG.
    """

    name: str
    doc: str
    operations: tuple[int, ...]
    kinds: tuple[str, ...]
    nanoseconds: tuple[float, ...]
    picture: str


def write(output: Path) -> None:
    """Write the gallery and all reports.

    Args:
        output: the folder of the site's pages.
    """
    folder = output / "reports"
    folder.mkdir(parents=True)
    count = min(_PROCESSES, os.cpu_count() or 1)
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        facts = list(pool.map(report, sorted(NAMES), [folder] * len(NAMES)))
    text = "\n".join([_HEAD, '<div class="gallery" markdown>', *map(_entry, facts), "</div>", ""])
    (output / "gallery.md").write_text(text, encoding="utf-8")


def report(name: str, folder: Path) -> Facts:
    """Write the report of a cell; there is none of a cell that no CUDA kernel runs.

    Args:
        name: of the cell.
        folder: of the reports.
    """
    cell = rnnc.cells.get(name)
    try:
        found = Report.of(cell, SHAPE, limits_of(GPU))
    except rnnc.PlanError:
        return Facts(name, cell.doc.partition("\n")[0], (), (), (), graph.picture_of(cell))
    text = page_of([found], command_of([cell], SHAPE, GPU, "auto"))
    (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return Facts(
        name,
        found.card.doc.partition("\n")[0],
        tuple(work.operations for work in found.card.work),
        tuple(kernel.kind for kernel in found.kernels),
        tuple(kernel.timeline.total for kernel in found.kernels),
        graph.picture_of(cell),
    )


def _entry(facts: Facts) -> str:
    return f"""<div class="cell" markdown>

### {facts.name}

<div class="picture" tabindex="0" data-search-exclude>{facts.picture}</div>

{facts.doc}

{_words(facts)}

</div>
"""


def _words(facts: Facts) -> str:
    """The line below a docstring: work, plan, and the way to the report."""
    if not facts.operations:
        return "Runs by kernels on a CPU, and by operations of torch on a GPU."
    forward, backward = facts.operations
    words = [f"{forward} + {backward} operations per unit and step, forward and backward."]
    if facts.kinds:
        kind = " and ".join(dict.fromkeys(facts.kinds))
        times = " + ".join(f"{ns / 1000:.2f}" for ns in facts.nanoseconds)
        words.append(f"A {kind} plan, {times} µs per step.")
    else:
        words.append("No plan at this size.")
    return " ".join([*words, f"[Report of {facts.name}](reports/{facts.name}.html)"])
