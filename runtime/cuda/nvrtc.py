"""Compilation of CUDA source by NVRTC, which needs no GPU. Binaries are kept on disk by digest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from ...cellspec.cell import CellSpec
from ...codegen.cpu.plan import CpuPlan
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.render import Source, Unit
from ...codegen.shape import Dtype
from ...errors import CompileError
from ..store.compiled import compile_cell, compile_source
from ..store.files import Cached
from .driver.device import cupy_nvrtc, nvrtc_version

_FLAGS = (
    "-std=c++17",
    "--ptxas-options=-v",
    "--device-as-default-execution-space",  # lambdas are device code too
    "--diag-suppress=177",  # not every cell uses every constant
)
# Two-byte elements round away what IEEE division would add. Not what subnormal numbers do: bfloat16
# has them where float32 has.
_FAST = ("--prec-div=false", "--prec-sqrt=false")


@dataclass(frozen=True)
class KernelReport:
    """Compiler's report of one kernel, per thread; spills and the stack are in bytes."""

    registers: int
    spills: int
    stack: int


@dataclass(frozen=True)
class Binary:
    """Compiled kernels of a source, with reports by kernel and the compiler's own words."""

    arch: str
    cubin: bytes
    reports: dict[str, KernelReport]
    log: str


@dataclass(frozen=True)
class NvrtcToolchain:
    """NVRTC for an architecture such as `sm_90a`, without a GPU; devices load binaries later."""

    arch: str
    language: ClassVar[str] = "CUDA"
    suffix: ClassVar[str] = "cubin"

    def identity(self, plan: CpuPlan | KernelPlan) -> tuple[object, ...]:
        """Return the flags for the plan's dtype, and the compiler's version."""
        return compile_flags(plan.dtype, self.arch), nvrtc_version()

    def build(self, source: Source) -> bytes:
        """Return the binary of a source, with the compiler's report."""
        return built(source, self.arch, source.plan.dtype)

    def load(self, found: Cached) -> Binary:
        """Return the binary in a file."""
        return unpacked(found.content)

    def facts(self, library: Binary) -> str:
        """Return registers and spills of each kernel, in a line."""
        return ", ".join(
            f"{name} {report.registers} registers, {report.spills} bytes of spills"
            for name, report in library.reports.items()
        )


def compile_cuda(source: Source, arch: str) -> Binary:
    """Compile a CUDA source for an architecture such as `sm_90a`, or find it compiled.

    Raises:
        NoCudaError: CuPy or NVRTC is missing.
        CompileError: the compiler refused the source, with its log and the lines that it names.
    """
    return compile_source(source, NvrtcToolchain(arch))


def compile_plan(cell: CellSpec, plan: KernelPlan) -> Binary:
    """Compile a cell's kernels of a direction, or find them compiled without writing their text."""
    return compile_cell(cell, plan, NvrtcToolchain(plan.arch))


def built(source: Source | Unit, arch: str, dtype: Dtype) -> bytes:
    """Compile a text with the flags of a dtype; return the content of a file of the cache."""
    with _compiled(source, compile_flags(dtype, arch)) as (nvrtc, program):
        log = nvrtc.getProgramLog(program)
        return _pack(Binary(arch, nvrtc.getCUBIN(program), _reports(log), log))


def compile_flags(dtype: Dtype, arch: str) -> tuple[str, ...]:
    """Return the options that a source for a dtype is compiled with."""
    fast = _FAST if dtype in ("bfloat16", "float16") else ()
    return (f"--gpu-architecture={arch}", *_FLAGS, *fast)


def ptx_of(source: Source, arch: str, *, lines: bool = False) -> str:
    """Return the source in PTX, for reading; with `lines`, it says which lines it came from."""
    virtual = "compute_" + arch.removeprefix("sm_")
    flags = compile_flags(source.plan.dtype, virtual) + (("-lineinfo",) if lines else ())
    with _compiled(source, flags) as (nvrtc, program):
        text: bytes = nvrtc.getPTX(program)
        return text.decode().rstrip("\0")


def cubin_with_lines(source: Source, arch: str) -> bytes:
    """Return the machine code of a source with line information, for a disassembler."""
    flags = *compile_flags(source.plan.dtype, arch), "-lineinfo"
    with _compiled(source, flags) as (nvrtc, program):
        cubin: bytes = nvrtc.getCUBIN(program)
        return cubin + b"\0"  # CuPy takes the last byte for the end of a text


@contextmanager
def _compiled(source: Source | Unit, flags: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """Compile a source; give NVRTC and its program, which ends with the context."""
    nvrtc = cupy_nvrtc()
    names = [name.encode() for name, _ in source.headers]
    texts = [text.encode() for _, text in source.headers]
    program = nvrtc.createProgram(source.code, f"{source.name}.cu", texts, names)
    try:
        # From its own cache, which it has since 12.9, NVRTC gives no registers and spills.
        own = ("--no-cache",) if nvrtc.getVersion() >= (12, 9) else ()
        try:
            nvrtc.compileProgram(program, (*flags, *own))
        except Exception as error:
            # NVRTC's own error type lives in the module that may be missing.
            log = nvrtc.getProgramLog(program)
            raise CompileError(
                f"{source.name}: NVRTC refused the generated source",
                f"{error}, with the flags {' '.join(flags)}\n{_with_lines(source, log)}",
                "a source that NVRTC accepts",
                'a report to the authors of rnnc with this message; until then backend="reference"',
            ) from error
        yield nvrtc, program
    finally:
        nvrtc.destroyProgram(program)


def _with_lines(source: Source | Unit, log: str) -> str:
    """Return the log, each message followed by the line of text that it points at."""
    texts = {f"{source.name}.cu": source.code, **dict(source.headers)}
    shown = []
    for line in log.splitlines():
        shown.append(line)
        place = re.match(r"(\S+)\((\d+)\)", line)
        if place and place[1] in texts:
            lines = texts[place[1]].splitlines()
            number = int(place[2])
            if 0 < number <= len(lines):
                shown.append(f"  {number} | {lines[number - 1]}")
    return "\n".join(shown)


_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


def _reports(log: str) -> dict[str, KernelReport]:
    _, *sections = _ENTRY.split(log)  # name, text, name, text, …
    reports = {}
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        spills, registers = _SPILLS.search(text), _REGISTERS.search(text)
        if spills and registers:
            stack, stores, loads = map(int, spills.groups())
            reports[name] = KernelReport(int(registers[1]), stores + loads, stack)
    return reports


def _pack(binary: Binary) -> bytes:
    reports = {name: asdict(report) for name, report in binary.reports.items()}
    head = {"arch": binary.arch, "reports": reports, "log": binary.log}
    return json.dumps(head).encode() + b"\n" + binary.cubin


def unpacked(content: bytes) -> Binary:
    """Return the binary in the content of a file of the cache, which `built` gave."""
    head, _, cubin = content.partition(b"\n")
    fields = json.loads(head)
    reports = {name: KernelReport(**report) for name, report in fields["reports"].items()}
    return Binary(fields["arch"], cubin, reports, fields["log"])
