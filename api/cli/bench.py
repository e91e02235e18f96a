"""`rnnc bench`: rnnc against torch's own RNNs, FlashRNN and loops, measured in one run."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from ..bench.contenders import DEFAULT_KINDS, KINDS, Kind, kinds_named
from ..bench.first_call import first_results
from ..bench.inputs import DTYPES
from ..bench.measure import Comparison, Settings, measure_row, short_row
from ..bench.plot import plot
from ..bench.precompile import compile_ahead
from ..bench.report import file_stem, machine, record, write_record
from ..bench.rows import BenchError, Row, rows_named
from ..bench.text import comparison_table, notes, summary_table
from ..cellspec.cell import CellSpec
from ..errors import RnncError
from ..runtime.cuda.driver.device import device_limits
from .console import fail, print_lines, print_table
from .find import find_cell


def bench_command(
    context: typer.Context,
    rows: Annotated[
        str | None,
        typer.Option(help="Rows of the table of sizes: 1,2,3, or 1-9, or all; 2 by default."),
    ] = None,
    cell: Annotated[
        str | None, typer.Option(help="A cell, as `rnnc show` takes it, in place of --rows.")
    ] = None,
    heads: Annotated[int | None, typer.Option(help="Heads; a row's own, or 1.")] = None,
    head_dim: Annotated[int | None, typer.Option(help="Units a head; a row's own, or 64.")] = None,
    batch: Annotated[int | None, typer.Option(help="Batch rows; a row's own, or 16.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps; 1024 by default.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Some of bfloat16,float16,float32; the first two on a GPU.")
    ] = None,
    peer_dtype: Annotated[
        str | None,
        typer.Option(help="Further ones of torch's RNNs; on a GPU float16, its fastest."),
    ] = None,
    contenders: Annotated[
        str, typer.Option(help=f"Some of {', '.join(KINDS)}.", metavar="KINDS")
    ] = ",".join(DEFAULT_KINDS),
    eager: Annotated[
        bool, typer.Option("--eager", help="The eager loop at all steps too.")
    ] = False,
    compiled: Annotated[
        bool, typer.Option("--compile", help="torch.compile of a loop, at 32 steps.")
    ] = False,
    first: Annotated[
        bool, typer.Option("--first", help="Seconds to a first result, in fresh processes.")
    ] = False,
    queued: Annotated[
        bool, typer.Option("--queued", help="Keep the GPU busy, so that the host's time is hidden.")
    ] = False,
    ahead: Annotated[
        bool, typer.Option("--ahead", help="First compile all kernels of a GPU, side by side.")
    ] = False,
    repeat: Annotated[int, typer.Option(help="Timed runs of each contender.", min=1)] = 30,
    limit: Annotated[
        float | None, typer.Option(help="Seconds for all, shared among the rows.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; cuda where there is one.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for a JSON file and a picture.")
    ] = None,
) -> None:
    """Measure rnnc and its peers side by side: forward, forward + backward, inference, memory.

    All contenders of a row get the same inputs and take turns. A contender that fails is
    shown with its reason.
    """
    began = time.monotonic()
    try:
        where = _device(device)
        wanted = _kinds(contenders, eager, compiled)
        deadline = math.inf if limit is None else began + limit
        dtypes = _dtypes(dtype, where)
        more = _dtypes(peer_dtype or ("float16" if where == "cuda" else dtypes[0]), where)
        settings = Settings(where, dtypes, more, wanted, repeat, queued)
        chosen = _rows(rows, cell, heads, head_dim, batch, steps)
        today, on = date.today().isoformat(), machine(where)
        print_lines(", ".join(f"{k} {v}" for k, v in on.items()).replace("device ", "", 1))
        torch.manual_seed(0)
        found: list[Comparison] = []
        stem = file_stem(where, on["device"], today) + ("-queued" if queued else "")
        seconds = None
        if ahead and where == "cuda":
            limits = device_limits(torch.cuda.current_device())
            seconds = compile_ahead(chosen, dtypes, limits)
            print_lines(f"compiled in {seconds:.1f} s")
        for i, (row, its_cell) in enumerate(chosen):
            # What a row leaves of its share, the others have.
            now = time.monotonic()
            settings = replace(settings, deadline=now + (deadline - now) / (len(chosen) - i))
            short = short_row(row, wanted)
            for each in (row, short) if short else (row,):
                found.append(measure_row(each, its_cell, settings))
                if first and each is row:
                    _first(found[-1], its_cell, settings)
                print_table(comparison_table(found[-1], where))
                print_lines(notes(found[-1]))
                if output is not None:
                    # After each row: what was measured stays when a later row takes too long.
                    command = _command(context)
                    content = record(found, where, today, command, repeat, queued, seconds)
                    write_record(content, output / f"{stem}.json")
        if len(found) > 1 and where == "cuda":
            print_lines("")
            print_table(summary_table(found))
        if output is not None:
            print_lines(f"wrote {output / f'{stem}.json'}")
            _plot(found, f"{on['device']}, torch {on['torch']}, {today}", output / f"{stem}.svg")
    except RnncError as error:
        fail(error)


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


def _rows(
    numbers: str | None,
    cell: str | None,
    heads: int | None,
    head_dim: int | None,
    batch: int | None,
    steps: int | None,
) -> list[tuple[Row, CellSpec]]:
    if numbers is not None and cell is not None:
        raise BenchError(f"--rows {numbers} and --cell {cell}", "one of them", f"--rows {numbers}")
    sizes = {"heads": heads, "head_dim": head_dim, "batch": batch, "steps": steps}
    if cell is not None:
        its_cell = find_cell(cell)
        return [(Row(its_cell.name, 1, 64).resized(**sizes), its_cell)]
    return [(row.resized(**sizes), find_cell(row.cell)) for row in rows_named(numbers or "2")]


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


def _command(context: typer.Context) -> str:
    """What was typed, but for the folder, which is a matter of the machine."""
    words = ["rnnc bench"]
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        source = context.get_parameter_source(name)
        if name != "output" and source is not None and source.name == "COMMANDLINE":
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    return " ".join(words)


def _plot(found: list[Comparison], title: str, path: Path) -> None:
    try:
        plot(found, title, path)
        print_lines(f"wrote {path}")
    except BenchError as error:
        # The figures are there: a picture is worth no failure.
        Console(stderr=True, highlight=False).print(f"no picture: {error}", markup=False)
