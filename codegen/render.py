"""Rendering: source text from a derived cell and a plan. The only file that knows Jinja."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import jinja2

from ..cellspec.cell import CellSpec
from ..cellspec.stages.words import exchanges_in_words
from .cpu.plan import CpuPlan
from .cuda.kernel_plan import KernelPlan
from .cuda.stage_tables import stage_tables
from .derive import Pointwise, derive
from .emit import emit_called_functions, emit_used_functions, needs_more_functions, spelled
from .layout import layout_of, states_read_before
from .pointwise_functions import pointwise_functions, runs_in_blocks
from .spaces import numbers
from .stages.functions import stage_functions


class Unit(NamedTuple):
    """A translation unit that belongs to no cell.

    Attributes:
        name: of its template, without a suffix; in C++ with the type of its numbers.
        code: its text.
        headers: path and text of each file that it includes, by the path that `code` includes.
    """

    name: str
    code: str
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Source:
    """One translation unit, with the hand-written headers that it includes.

    Attributes:
        name: the cell's name.
        code: the generated text.
        headers: path and text of each header, by the path that `code` includes.
        plan: what it was rendered for.
        units: what else its library is linked with, the same for all cells.
    """

    name: str
    code: str
    headers: tuple[tuple[str, str], ...]
    plan: CpuPlan | KernelPlan
    units: tuple[Unit, ...] = ()

    @property
    def digest(self) -> str:
        """The hash of all text."""
        text = (self.code, self.headers, *self.units)
        return hashlib.sha256(repr(text).encode()).hexdigest()

    def __str__(self) -> str:
        return self.code


def render(pointwise: Pointwise, plan: CpuPlan | KernelPlan) -> Source:
    """Write the source of a cell for a plan.

    Args:
        pointwise: the derived maps of the cell.
        plan: what to write: both directions for the CPU, or one direction's kernel for a GPU.

    Returns:
        The source, the same to the byte in every process.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cpu.plan import CpuPlan
        >>> from rnnc.codegen.derive import derive
        >>> "h_next = tanh(g);" in render(derive(rnnc.cells.elman), CpuPlan()).code
        True
    """
    cell = pointwise.cell
    layout = layout_of(cell)
    more_functions = needs_more_functions((pointwise.forward, pointwise.backward))
    in_blocks = runs_in_blocks(pointwise, plan)
    code = (
        _environment()
        .get_template(plan.template)
        .render(
            cell=cell,
            equations=cell.equations(),
            plan=plan,
            scalar=plan.scalar,
            pointwise=pointwise,
            layout=layout,
            numbers=numbers,
            source_names=layout.sources.space.names,
            reads=["true" if r else "false" for r in states_read_before(pointwise)],
            reaches={} if pointwise.stages else _reaches(pointwise),
            functions=emit_used_functions(
                map(pointwise.program, plan.directions), provided=_provided(pointwise, plan)
            ),
            more_functions=more_functions,
            called=emit_called_functions,
            in_blocks=in_blocks,
            **({} if isinstance(plan, CpuPlan) else plan.for_template(pointwise)),
            **_stages(pointwise, plan),
            **({} if pointwise.stages else pointwise_functions(pointwise, plan)),
        )
    )
    headers = _headers(plan.headers) + _registered_headers.get(plan.template, ())
    # By themselves, so that sources without them stay as they were.
    if more_functions:
        headers += _headers(plan.more_functions)
    if in_blocks:
        assert plan.lanes is not None
        headers += _headers(plan.lanes)
    if pointwise.stages and not isinstance(plan, CpuPlan):
        headers += _headers("cuda/stages")
    units = tuple(_cpp_unit(f"{plan.headers}/{name}.cpp", plan.scalar) for name in plan.linked)
    return Source(cell.name, code, headers, plan, units)


def cuda_unit(name: str) -> Unit:
    """A CUDA translation unit that belongs to no cell, with the library's headers.

    Args:
        name: of its template, without a suffix.
    """
    return Unit(name, _text(f"cuda/{name}.cu"), _headers("cuda/lib"))


@cache
def _cpp_unit(file: str, scalar: str) -> Unit:
    """A file of C++ that belongs to no cell, for one type of numbers."""
    folder, name = file.rsplit("/", 1)
    code = f'namespace rnnc {{\nusing real = {scalar};\n}}\n#include "lib/{name}"\n'
    headers = (*_headers(folder), (f"lib/{name}", _text(file)))
    return Unit(f"{name.removesuffix('.cpp')}-{scalar}", code, headers)


def _text(file: str) -> str:
    return resources.files("rnnc.templates").joinpath(file).read_text("utf-8")


def derive_for(cell: CellSpec, plan: CpuPlan | KernelPlan) -> Pointwise:
    """Derive the programs that a plan's kernels run.

    Args:
        cell: any cell that they run.
        plan: of the kernels.
    """
    return derive(cell, activations=plan.save == "gates", early_sums=plan.early_sums)


def register_template(
    name: str, loader: jinja2.BaseLoader, headers: Sequence[tuple[str, str]] = ()
) -> None:
    """Add a template from outside this package.

    Args:
        name: the name that the loader knows it by.
        loader: loads it.
        headers: path and text of each header that it includes besides the library's.
    """
    _registered_loaders[name] = loader
    _registered_headers[name] = tuple(headers)
    _environment.cache_clear()


def unregister_template(name: str) -> None:
    """Remove a template that `register_template` added.

    Args:
        name: of the template.
    """
    del _registered_loaders[name], _registered_headers[name]
    _environment.cache_clear()


_registered_loaders: dict[str, jinja2.BaseLoader] = {}
_registered_headers: dict[str, tuple[tuple[str, str], ...]] = {}


def _provided(pointwise: Pointwise, plan: CpuPlan | KernelPlan) -> frozenset[str]:
    """The functions of the table that headers write themselves."""
    return plan.provided | (plan.provided_to_stages if pointwise.stages else frozenset())


def _stages(pointwise: Pointwise, plan: CpuPlan | KernelPlan) -> dict[str, object]:
    """Return what a template gets of stages; None for a cell without."""
    if isinstance(plan, CpuPlan):
        return {"stages": stage_functions(pointwise)}
    cell = pointwise.cell
    passed = tuple(sorted(plan.passed))
    asked = plan.looks_ahead
    looks_ahead = asked == "always" or (asked == "unmasked" and not plan.masked)
    tables = stage_tables(pointwise, plan.direction, passed, looks_ahead=looks_ahead)
    found: dict[str, object] = {"tables": tables}
    return found | ({"exchanges": exchanges_in_words(cell)} if cell.has_stages else {})


def _reaches(pointwise: Pointwise) -> dict[str, list[list[str]]]:
    """For each state, whether its gradient after a step reaches those of gates, states, params."""
    layout, reach = layout_of(pointwise.cell), pointwise.backward.reach()
    return {
        kind: [
            ["true" if f"d_{s}_next" in reach[f"d_{n}"] else "false" for n in names]
            for s in layout.states.names
        ]
        for kind, names in (
            ("Gate", layout.gradients.names),
            ("State", layout.states.names),
            ("Param", layout.params.names),
        )
    }


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("rnnc.templates", "."), *_registered_loaders.values()]
        ),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["spelled"] = spelled
    return environment


@cache
def _headers(folder: str) -> tuple[tuple[str, str], ...]:
    path = resources.files("rnnc.templates").joinpath(folder)
    with resources.as_file(path) as root:
        files = sorted(f for f in root.rglob("*") if f.suffix in {".h", ".cuh"})
        return tuple((f"lib/{f.relative_to(root).as_posix()}", f.read_text("utf-8")) for f in files)
