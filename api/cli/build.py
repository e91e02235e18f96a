"""`rnnc build`: compiles CUDA kernels to files; the GPU need not be present."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ..codegen.cuda.arch import limits_of_arch, matrix_instructions
from ..codegen.cuda.kernel_plan import KernelPlan
from ..codegen.cuda.source import CudaSource
from ..codegen.render import Source
from ..errors import RnncError
from ..runtime.cuda.nvrtc import Binary, compile_cuda, ptx_of
from .console import print_lines, print_table
from .find import find_cell
from .progress import track


@dataclass(frozen=True)
class _Built:
    """A translation unit with its binary and its PTX."""

    source: Source
    plan: KernelPlan
    binary: Binary
    ptx: str
    seconds: float

    @property
    def stem(self) -> str:
        parts = [self.source.name, self.plan.kind, self.plan.direction]
        return ".".join([*parts, *["reverse"] * bool(self.plan.reverse), self.binary.arch])


def build_files(cell: str, archs: list[str], out: Path | None, **options: Any) -> None:
    """Compile a cell's CUDA kernels for some architectures, write the files and print a table.

    Args:
        cell: as `rnnc show` takes it.
        archs: architectures by their CUDA names.
        out: the folder; None for one that is named after the cell.
        **options: heads, head_dim, dtype, variant and reverse, as `Cell.cuda` takes them.

    Raises:
        RnncError: there is no such cell, architecture or plan, or the folder cannot be written.
    """
    found = find_cell(cell)
    limits = {name: limits_of_arch(name) for name in archs}
    sources = {name: found.cuda(gpu=gpu, **options) for name, gpu in limits.items()}
    archs_of = f"compiling {found.name} for {', '.join(sources)}"
    named = track(sources.items(), archs_of, name=lambda item: item[0])
    built = [each for name, source in named for each in _build(source, name)]
    folder = out or Path(f"{found.name}_cuda")
    _write(built, folder)
    print_table(_table(built))
    print_lines(f"\n{folder}: {', '.join(f'{b.stem}.*' for b in built)} and lib/")


def _build(source: CudaSource, arch: str) -> list[_Built]:
    built = []
    plans = (source.plan.forward, source.plan.backward)
    for unit, plan in zip(source.units, plans, strict=True):
        start = time.perf_counter()
        binary = compile_cuda(unit, arch)
        seconds = time.perf_counter() - start
        built.append(_Built(unit, plan, binary, ptx_of(unit, arch), seconds))
    return built


def _write(built: list[_Built], folder: Path) -> None:
    try:
        for each in built:
            for path, text in each.source.headers:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, "utf-8")
            (folder / f"{each.stem}.cu").write_text(each.source.code, "utf-8")
            (folder / f"{each.stem}.ptx").write_text(each.ptx, "utf-8")
            # CuPy removes the last byte, a zero; tools that read the file need it.
            (folder / f"{each.stem}.cubin").write_bytes(each.binary.cubin + b"\0")
    except OSError as error:
        raise RnncError(
            str(folder),
            f"{type(error).__name__}: {error}",
            "a folder that rnnc may write to",
            "--out with another folder",
        ) from error


def _table(built: list[_Built]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("arch", "plan", "kernel"):
        table.add_column(column)
    for column in ("registers", "spills", "shared memory", "matrix instructions", "seconds"):
        table.add_column(column, justify="right")
    for each in built:
        plan, counts = each.plan, matrix_instructions(each.ptx)
        for number, name in enumerate(sorted(plan.kernel_names)):
            report = each.binary.reports[name]
            shared = plan.launch_shape.shared
            table.add_row(
                each.binary.arch if number == 0 else "",
                plan.kind if number == 0 else "",
                name,
                str(report.registers),
                str(report.spills),
                str(shared),
                str(counts[name]),
                f"{each.seconds:.1f}" if number == 0 else "",
            )
    return table
