"""The command `rnnc bench` for rows of sizes."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console

from ...bench.anchors import Anchors, read_anchors
from ...bench.cases import RowCase
from ...bench.contenders.contender import DEFAULT_KINDS, Kind, kinds_named
from ...bench.first_call import first_results
from ...bench.inputs import DTYPES
from ...bench.measure import Settings, measure, short_row
from ...bench.precompile import compile_shapes
from ...bench.report import Record, machine_line
from ...bench.results import Comparison
from ...bench.rows import BenchError, Row, rows_named
from ...bench.tables import cases_table, notes, rows_table
from ...cellspec.cell import CellSpec
from ...codegen.cuda.kinds import variants
from ...codegen.shape import Dtype, Shape, counted
from ...errors import RnncError
from ...runtime.cuda.driver.device import device_limits
from ..console import print_lines, print_table
from ..find import find_cell
from ..picture import check_picture, write_picture
from ..progress import stage, stages
from .modules import bench_modules
from .options import BenchOptions
from .pictures import cases_marks
from .suites import SUITES, bench_suite

_COLUMNS = (
    *("us per step", "by the model", "MiB", "first call, s", "rnnc is faster"),
    "times the target",
)


def bench(options: BenchOptions, command: str) -> None:
    """Measure the rows, or other cases, print tables, and write the record and the picture.

    Args:
        options: the options of the command.
        command: the command line, for the record.

    Raises:
        RnncError: an option is wrong.
    """
    began = time.monotonic()
    check_picture(options.plot)
    device = _device(options.device)
    if options.users or options.ragged:
        bench_modules(options, device, command)
        return
    for suite in SUITES:
        if getattr(options, suite.option):
            dtypes = _dtypes(options.dtype, device) if options.dtype else ()
            bench_suite(suite, options, device, dtypes, command)
            return
    settings = Settings(device, options.repeat, options.queued)
    dtypes = _dtypes(options.dtype, device)
    half = "float16" if device == "cuda" else dtypes[0]
    words = options.contenders or ",".join(DEFAULT_KINDS)
    kinds = _kinds(words, options.eager, options.compiled)
    who = dtypes, kinds, _dtypes(options.peer_dtype or half, device)
    anchors = read_anchors(options.anchors) if options.anchors else Anchors(rows={})
    chosen = _rows(options, anchors)
    deadline = math.inf if options.limit is None else began + options.limit
    record = Record(device, command, method=settings.method)
    stem, folder = record.stem + ("-queued" if options.queued else ""), options.output
    record.into(folder and folder / f"{stem}.json")
    print_lines(machine_line(record.machine))
    torch.manual_seed(0)
    seconds = _compile_all(chosen, device, dtypes) if options.ahead else None
    found: list[dict[str, Any]] = []
    for number, (row, cell) in enumerate(stages(chosen, "measuring", lambda each: str(each[0]))):
        # The time that a row does not use is left to the others.
        now = time.monotonic()
        settings = replace(settings, deadline=now + (deadline - now) / (len(chosen) - number))
        short = short_row(row, kinds)
        for each in (row, short) if short else (row,):
            measured = measure(RowCase(each, *who), cell, settings)
            if options.first and each is row:
                _first(measured, cell, settings)
            found.append(measured.record())
            print_table(cases_table(found[-1:], _COLUMNS))
            print_lines(notes(measured))
            record.write(
                compiled_ahead_seconds=seconds,
                anchors_measured_on=anchors.measured_on,
                rows=found,
            )
    if len(found) > 1 and device == "cuda":
        print_lines("")
        print_table(rows_table(found))
    for path in record.paths:
        print_lines(f"wrote {path}")
        _draw(found, record, path.with_suffix(".svg"))
    _draw(found, record, options.plot)


def _compile_all(
    rows: list[tuple[Row, CellSpec]], device: str, dtypes: tuple[str, ...]
) -> float | None:
    """Compile the kernels of all rows; the seconds that it took, None on the CPU."""
    if device != "cuda":
        return None
    with stage(f"compiling the kernels of {counted(len(rows), 'row')}"):
        shapes = [
            (cell, Shape(row.heads, row.head_dim, row.batch, row.steps, cast(Dtype, name)), False)
            for row, cell in rows
            for name in dtypes
        ]
        seconds = compile_shapes(shapes, device_limits(torch.cuda.current_device()), variants())
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


def _rows(options: BenchOptions, anchors: Anchors) -> list[tuple[Row, CellSpec]]:
    numbers, cell = options.rows, options.cell
    sizes = {name: getattr(options, name) for name in ("heads", "head_dim", "batch", "steps")}
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
        if not scans or "prepare" in result.failures or contender.dtype != found.case.dtypes[0]:
            continue
        if time.monotonic() > settings.deadline:
            found.left_out[f"first result of {contender.name}"] = "the time limit was reached"
            continue
        name = f"{contender.name}, {contender.dtype}"
        found.first[name] = first_results(found.case.row, cell, settings.device, contender)


def _draw(found: list[dict[str, Any]], record: Record, path: Path | None) -> None:
    try:
        check_picture(path)
    except RnncError as error:
        # The figures are written already, so a missing picture is no failure.
        Console(stderr=True, highlight=False).print(f"no picture: {error}", markup=False)
        return
    label = "ms; + with its input GEMM; * one head only, or another function"
    write_picture(path, f"rnnc bench: {record.title}", label, list(cases_marks(found)))
