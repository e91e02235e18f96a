"""`rnnc report`: finds the cells, and writes the page."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from ..codegen.cuda.limits import limits_of
from ..codegen.shape import Shape
from ..errors import RnncError
from ..report.contents import Report
from ..report.measured import measured_on_gpu
from ..report.page import page_of
from ..runtime.cuda.driver.device import device_limits
from .console import print_lines
from .find import find_cell
from .gpu import need_gpu
from .progress import stage

# What takes seconds is made here, with its progress; the page finds it made.
_LONG_PARTS = {"finding the errors": "accuracy", "compiling the kernels": "code"}


def write_report(
    cells: Sequence[str],
    output: Path | None,
    shape: Shape,
    gpu: str,
    variant: str,
    measure: bool = False,
) -> None:
    """Write the page of one cell, or of two.

    Args:
        cells: as `rnnc show` takes them.
        output: the file; None for one in the current folder that is named after the cells.
        shape: the sizes.
        gpu: a GPU by name.
        variant: the kind of plan, or "auto".
        measure: whether to measure on this machine's GPU, which then is the plan's.

    Raises:
        RnncError: there is no such cell or GPU, or the file cannot be written.
    """
    if measure:
        need_gpu("rnnc report --measure", "rnnc report without --measure, which estimates")
        limits = device_limits(torch.cuda.current_device())
        gpu = limits.name
    else:
        limits = limits_of(gpu)
    found = [find_cell(cell) for cell in cells]
    path = output or Path("-".join(cell.name for cell in found) + ".html")
    _check_output(path)
    reports = []
    for cell, prefix in zip(found, "ab", strict=False):
        with stage(f"planning {'and measuring ' * measure}{cell.name}"):
            by = measured_on_gpu if measure else None
            reports.append(Report.of(cell, shape, limits, variant, prefix, by))
        for what, part in _LONG_PARTS.items():
            with stage(f"{what} of {cell.name}"):
                getattr(reports[-1], part)
    page = page_of(reports, command_of(found, shape, gpu, variant, measure))
    path.write_text(page, encoding="utf-8")
    print_lines(f"{path}: {len(page.encode()) / 1e3:.0f} kB")


def _check_output(path: Path) -> None:
    """See that the page can be written, before the work for it."""
    if path.is_dir():
        found, write = "a folder", path / "report.html"
    elif not path.parent.is_dir():
        found, write = f"no folder {path.parent}", Path(path.name)
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        found, write = "no right to write it", Path(tempfile.gettempdir()) / path.name
    else:
        return
    wanted = "a file that rnnc may write"
    raise RnncError(f"--output {path}", found, wanted, f"--output {shlex.quote(str(write))}")


def command_of(
    cells: Sequence[object], shape: Shape, gpu: str, variant: str, measure: bool = False
) -> str:
    """The command that makes the page again, with names of cells and no path of this machine.

    Args:
        cells: with a name each.
        shape: the sizes.
        gpu: a GPU by name.
        variant: the kind of plan.
        measure: whether it measures, on the GPU of the machine.
    """
    names = [str(getattr(cell, "name", cell)) for cell in cells]
    words = ["rnnc", "report", *names, "--heads", f"{shape.heads}"]
    words += ["--head-dim", f"{shape.head_dim}", "--batch", f"{shape.batch}"]
    words += ["--dtype", shape.dtype, "--variant", variant]
    words += ["--measure"] if measure else ["--gpu", gpu]
    return shlex.join(words)
