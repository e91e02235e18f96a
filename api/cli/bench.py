"""What `rnnc bench` does: it measures rows, and prints and writes what it found."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from ..bench.anchors import Anchors, read_anchors
from ..bench.contenders.kinds import Kind, kinds_named
from ..bench.first_call import first_results
from ..bench.inputs import DTYPES
from ..bench.measure import Comparison, Settings, measure_row, short_row
from ..bench.plot import plot
from ..bench.precompile import compile_ahead
from ..bench.report import file_stem, machine, record, write_record
from ..bench.rows import BenchError, Row, rows_named
from ..bench.text import comparison_table, notes, summary_table
from ..cellspec.cell import CellSpec
from ..runtime.cuda.driver.device import device_limits
from .console import print_lines, print_table
from .find import find_cell


class Sizes(NamedTuple):
    """Sizes in place of the rows' own; None keeps those."""

    heads: int | None
    head_dim: int | None
    batch: int | None
    steps: int | None


@dataclass(frozen=True)
class Wishes:
    """The options of `rnnc bench`, as they were given.

    Attributes:
        rows: numbers of rows; None for row 2, or with a cell.
        cell: as `rnnc show` takes it; None for the rows' own.
        sizes: in place of the rows' own.
        dtypes: separated by commas; None for the device's.
        peer_dtypes: further dtypes for torch's RNNs, likewise.
        contenders: kinds, separated by commas.
        eager: whether the eager loop runs at all steps too.
        compiled: whether torch.compile of a loop runs too.
        first: whether the seconds to a first result are measured.
        queued: whether the GPU is kept busy, to hide the host's time.
        ahead: whether all kernels are compiled before.
        repeat: timed runs of each contender.
        limit: seconds for all rows together.
        device: "cpu" or "cuda"; None for a GPU if there is one.
        anchors: a file of targets and other libraries' times.
        output: the folder for a JSON file and a picture.
        command: the command line, for the record.
    """

    rows: str | None
    cell: str | None
    sizes: Sizes
    dtypes: str | None
    peer_dtypes: str | None
    contenders: str
    eager: bool
    compiled: bool
    first: bool
    queued: bool
    ahead: bool
    repeat: int
    limit: float | None
    device: str | None
    anchors: Path | None
    output: Path | None
    command: str


def bench(wishes: Wishes) -> None:
    """Measure the rows, print a table of each, and write the record and the picture.

    Args:
        wishes: the options of the command.

    Raises:
        RnncError: an option is wrong.
    """
    began = time.monotonic()
    settings = _settings(wishes)
    anchors = read_anchors(wishes.anchors) if wishes.anchors else Anchors()
    chosen = _rows(wishes, anchors)
    deadline = math.inf if wishes.limit is None else began + wishes.limit
    today, on = date.today().isoformat(), machine(settings.device)
    print_lines(", ".join(f"{k} {v}" for k, v in on.items()).replace("device ", "", 1))
    torch.manual_seed(0)
    seconds = _compile_all(chosen, settings) if wishes.ahead else None
    found: list[Comparison] = []
    stem = file_stem(settings.device, on["device"], today) + ("-queued" if wishes.queued else "")
    for number, (row, cell) in enumerate(chosen):
        # The time that a row does not use is left to the others.
        now = time.monotonic()
        settings = replace(settings, deadline=now + (deadline - now) / (len(chosen) - number))
        short = short_row(row, settings.kinds)
        for each in (row, short) if short else (row,):
            found.append(measure_row(each, cell, settings))
            if wishes.first and each is row:
                _first(found[-1], cell, settings)
            print_table(comparison_table(found[-1], settings.device))
            print_lines(notes(found[-1]))
            if wishes.output is not None:
                # After each row, so that nothing is lost if a later row takes too long.
                content = record(found, settings, today, wishes.command, seconds, anchors)
                write_record(content, wishes.output / f"{stem}.json")
    if len(found) > 1 and settings.device == "cuda":
        print_lines("")
        print_table(summary_table(found))
    if wishes.output is not None:
        print_lines(f"wrote {wishes.output / f'{stem}.json'}")
        title = f"{on['device']}, torch {on['torch']}, {today}"
        _plot(found, title, wishes.output / f"{stem}.svg")


def _settings(wishes: Wishes) -> Settings:
    device = _device(wishes.device)
    dtypes = _dtypes(wishes.dtypes, device)
    default = "float16" if device == "cuda" else dtypes[0]
    return Settings(
        device,
        dtypes,
        _dtypes(wishes.peer_dtypes or default, device),
        _kinds(wishes.contenders, wishes.eager, wishes.compiled),
        wishes.repeat,
        wishes.queued,
    )


def _compile_all(rows: list[tuple[Row, CellSpec]], settings: Settings) -> float | None:
    """Compile the kernels of all rows; the seconds that it took, None on the CPU."""
    if settings.device != "cuda":
        return None
    seconds = compile_ahead(rows, settings.dtypes, device_limits(torch.cuda.current_device()))
    print_lines(f"compiled in {seconds:.1f} s")
    return seconds


def _device(device: str | None) -> str:
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise BenchError(f"device {device!r}", "cpu or cuda", "--device cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise BenchError("no CUDA device", "a GPU that torch can use", "--device cpu")
    return device


def _kinds(words: str, eager: bool, compiled: bool) -> tuple[Kind, ...]:
    kinds = kinds_named(words)
    more: list[tuple[bool, Kind]] = [(eager, "loop"), (compiled, "compile")]
    return (*kinds, *(kind for asked, kind in more if asked and kind not in kinds))


def _dtypes(words: str | None, device: str) -> tuple[str, ...]:
    if words is None:
        return ("bfloat16", "float16") if device == "cuda" else ("float32",)
    found = tuple(word.strip() for word in words.split(","))
    for word in found:
        if word not in DTYPES:
            raise BenchError(f"dtype {word!r}", f"some of {', '.join(DTYPES)}", "--dtype bfloat16")
    return found


def _rows(wishes: Wishes, anchors: Anchors) -> list[tuple[Row, CellSpec]]:
    numbers, cell, sizes = wishes.rows, wishes.cell, wishes.sizes._asdict()
    if numbers is not None and cell is not None:
        raise BenchError(f"--rows {numbers} and --cell {cell}", "one of them", f"--rows {numbers}")
    if cell is not None:
        its_cell = find_cell(cell)
        return [(Row(its_cell.name, 1, 64).resized(**sizes), its_cell)]
    rows = (anchors.at(row).resized(**sizes) for row in rows_named(numbers or "2"))
    return [(row, find_cell(row.cell)) for row in rows]


def _first(found: Comparison, cell: CellSpec, settings: Settings) -> None:
    for result in found.results:
        contender = result.contender
        scans = contender.ours and contender.terms == "wx ready"
        if not scans or "prepare" in result.failures or contender.dtype != settings.dtypes[0]:
            continue
        if time.monotonic() > settings.deadline:
            found.left_out[f"first result of {contender.name}"] = "the time limit was reached"
            continue
        name = f"{contender.name}, {contender.dtype}"
        found.first[name] = first_results(found.row, cell, settings.device, contender)


def _plot(found: list[Comparison], title: str, path: Path) -> None:
    try:
        plot(found, title, path)
        print_lines(f"wrote {path}")
    except BenchError as error:
        # The figures are written already, so a missing picture is no failure.
        Console(stderr=True, highlight=False).print(f"no picture: {error}", markup=False)
