"""Equation to code: the texts of a cell's kernels, each line with the terms that it came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..cellspec.cell import CellSpec
from ..cellspec.expression.node import Node
from ..codegen.cpu.plan import CpuPlan
from ..codegen.cuda.source import cuda_source
from ..codegen.derive import Pointwise, derive
from ..codegen.plan import Plan
from ..codegen.program import lines_of
from ..codegen.render import Source, derive_for, render
from ..codegen.source_terms import source_terms
from ..errors import CompileError
from ..runtime.cuda.nvrtc import compile_cuda, cubin_with_lines, ptx_of
from .ptx import PtxLine, ptx_lines
from .sass import INSTALL, disassembled, nvdisasm, sass_lines
from .terms import Terms


class Line(NamedTuple):
    """A line of a text on the page.

    Attributes:
        text: the line.
        number: in its file, or 0.
        marks: the numbers of its terms, for the page's script.
        chips: the colours of its functions.
        left_out: how many lines this one stands for, if it stands for others.
    """

    text: str
    number: int = 0
    marks: str = ""
    chips: tuple[int, ...] = ()
    left_out: int = 0


class Text(NamedTuple):
    """One text: a source, a derived backward, PTX.

    Attributes:
        title: what it is.
        note: one sentence below the title, or nothing.
        lines: of the text.
    """

    title: str
    note: str
    lines: tuple[Line, ...]


class Use(NamedTuple):
    """Resources of a kernel, as the compiler reports them.

    Attributes:
        name: of the kernel.
        registers: per thread.
        spills: bytes per thread.
        stack: bytes per thread.
        planned: registers per thread that the plan allows, or None.
    """

    name: str
    registers: int
    spills: int
    stack: int
    planned: int | None


@dataclass(frozen=True)
class Code:
    """All texts of a cell.

    Attributes:
        texts: derived backward, CUDA, C++ and PTX.
        uses: registers and spills of each kernel.
        missing: what the machine lacks for a text, and the command that adds it.
    """

    texts: tuple[Text, ...]
    uses: tuple[Use, ...]
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, cell: CellSpec, plan: Plan | None, terms: Terms) -> Code:
        """The texts of a cell.

        Args:
            cell: the cell.
            plan: of its CUDA kernels; without one there is only C++.
            terms: of the equations.
        """
        texts = [backward_text(cell, terms)]
        uses: list[Use] = []
        missing: list[str] = []
        if plan is not None:
            texts += cuda_texts(cell, plan, terms)
            texts.append(cpp_text(cell, terms))
            units = cuda_source(cell, plan).units
            try:
                for unit in units:
                    own = derive_for(cell, unit.plan)
                    texts.append(_ptx(unit, own, plan.arch, terms))
                    uses += _uses(unit, plan)
            except CompileError as error:
                missing.append(f"{error.found}. To add PTX, registers and spills: {error.write}")
            else:
                machine, remarks = _machine_code(units, own, plan.arch, terms)
                texts += machine
                missing += remarks
        else:
            texts.append(cpp_text(cell, terms))
        return cls(tuple(texts), tuple(uses), tuple(missing))


def backward_text(cell: CellSpec, terms: Terms) -> Text:
    """The derived backward.

    Args:
        cell: the cell.
        terms: of its equations.
    """
    program = derive(cell).backward
    lines = tuple(
        Line(text, number, terms.mark(came_from), terms.chips(came_from))
        for number, (text, came_from) in enumerate(lines_of(program.statements), 1)
    )
    note = "d_x is the gradient of x; the products with R are not shown."
    return Text("Derived backward", note, lines)


def cuda_texts(cell: CellSpec, plan: Plan, terms: Terms) -> tuple[Text, ...]:
    """The CUDA source of each direction.

    Args:
        cell: the cell.
        plan: of its kernels.
        terms: of its equations.
    """
    units = cuda_source(cell, plan).units
    return tuple(
        _text(f"CUDA, {u.plan.directions[0]}", u, derive_for(cell, u.plan), terms) for u in units
    )


def cpp_text(cell: CellSpec, terms: Terms) -> Text:
    """The C++ source of the CPU kernels.

    Args:
        cell: the cell.
        terms: of its equations.
    """
    pointwise = derive(cell)
    return _text("C++, both directions", render(pointwise, CpuPlan()), pointwise, terms)


def _text(title: str, source: Source, pointwise: Pointwise, terms: Terms) -> Text:
    found = source_terms(pointwise, source)
    lines = source.code.rstrip("\n").split("\n")
    return Text(
        title,
        "",
        tuple(
            Line(text, number, terms.mark(own), terms.chips(own))
            for number, (text, own) in enumerate(zip(lines, found, strict=False), 1)
        ),
    )


def _ptx(unit: Source, pointwise: Pointwise, arch: str, terms: Terms) -> Text:
    lines = ptx_lines(ptx_of(unit, arch, lines=True), f"{unit.name}.cu")
    return _of_equations(f"PTX, {unit.plan.directions[0]}", lines, unit, pointwise, terms)


def _machine_code(
    units: Iterable[Source], pointwise: Pointwise, arch: str, terms: Terms
) -> tuple[list[Text], list[str]]:
    """SASS of each unit, and what is missing for it."""
    program = nvdisasm()
    if program is None:
        return [], [f"nvdisasm is not installed. To add SASS: {INSTALL}"]
    texts, remarks = [], []
    for unit in units:
        title = f"SASS, {unit.plan.directions[0]}"
        try:
            text = disassembled(program, cubin_with_lines(unit, arch))
        except OSError as error:
            remarks.append(f"{title}: none, because nvdisasm refuses the binary. {error}")
            continue
        lines = sass_lines(text, f"{unit.name}.cu")
        texts.append(_of_equations(title, lines, unit, pointwise, terms))
    return texts, remarks


def _of_equations(
    title: str, lines: tuple[PtxLine, ...], unit: Source, pointwise: Pointwise, terms: Terms
) -> Text:
    """The lines that came from the equations, with the number of lines between them."""
    found = source_terms(pointwise, unit)

    def terms_of(line: PtxLine) -> tuple[Node, ...]:
        return found[line.line - 1] if 0 < line.line <= len(found) else ()

    shown = tuple(_folded(lines, terms_of, terms))
    count = sum(1 for line in shown if not line.left_out)
    return Text(title, f"{count} of {len(lines)} lines: those of the equations.", shown)


def _folded(
    lines: Iterable[PtxLine], terms_of: Callable[[PtxLine], tuple[Node, ...]], terms: Terms
) -> Iterator[Line]:
    """The lines that came from a term, and one line for each run of others."""
    others: list[str] = []
    for number, line in enumerate(lines, 1):
        own = terms_of(line)
        if not own:
            others.append(line.header)
            continue
        if others:
            yield _gap(others)
            others = []
        yield Line(line.text, number, terms.mark(own), terms.chips(own))
    if others:
        yield _gap(others)


def _gap(headers: list[str]) -> Line:
    """A line in place of others, with the files that most of them came from."""
    common = [name for name, _ in Counter(h for h in headers if h).most_common(3)]
    count = len(headers)
    what = f"{count} {'line' if count == 1 else 'lines'}"
    return Line(f"… {what}{': ' + ', '.join(common) if common else ''}", left_out=count)


def _uses(unit: Source, plan: Plan) -> list[Use]:
    binary = compile_cuda(unit, plan.arch)
    planned = getattr(unit.plan, "registers", None)
    return [
        Use(name, report.registers, report.spills, report.stack, planned)
        for name, report in binary.reports.items()
    ]
