"""From a derived cell and a plan to source text: the only file that knows Jinja."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

import jinja2

from .derive import Pointwise
from .emit import emit_function, emit_used_functions
from .layout import layout_of
from .plan import CpuPlan


@dataclass(frozen=True)
class Source:
    """The text of a kernel, complete with the hand-written headers that it includes.

    Attributes:
        name: the cell's name.
        code: the generated translation unit.
        headers: file name and text of each header, by the path that `code` includes.
        plan: what it was rendered for.
    """

    name: str
    code: str
    headers: tuple[tuple[str, str], ...]
    plan: CpuPlan

    @property
    def digest(self) -> str:
        """A digest of all of the text."""
        return hashlib.sha256(repr((self.code, self.headers)).encode()).hexdigest()

    def __str__(self) -> str:
        return self.code


def render(pointwise: Pointwise, plan: CpuPlan) -> Source:
    """Write the source of a cell's kernels for a plan.

    Args:
        pointwise: the derived maps of the cell.
        plan: which variant to write; its type picks the template.

    Returns:
        The source, the same to the byte in every process.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> from rnnc.codegen.plan import CpuPlan
        >>> "h_next = tanh(g);" in render(derive(rnnc.cells.elman), CpuPlan()).code
        True
    """
    cell = pointwise.cell
    layout = layout_of(cell)
    kept = [str(o) for o in pointwise.forward.outputs if str(o) in pointwise.saved]
    next_states = [f"{s}_next" for s in layout.states]
    code = (
        _environment()
        .get_template("cpu/kernel.cpp.jinja")
        .render(
            cell=cell,
            equations=cell.equations(),
            plan=plan,
            pointwise=pointwise,
            layout=layout,
            functions=emit_used_functions([pointwise.forward, pointwise.backward]),
            forward=emit_function(
                "pointwise_forward",
                pointwise.forward,
                [*layout.gates, *layout.states, *layout.params],
                cell.constants,
            ),
            backward=emit_function(
                "pointwise_backward",
                pointwise.backward,
                [
                    *pointwise.saved,
                    *layout.states,
                    *next_states,
                    *layout.params,
                    *(f"d_{s}" for s in next_states),
                ],
                cell.constants,
            ),
            next_states=next_states,
            kept=kept,
            cotangents=[f"d_{n}" for n in (*layout.gates, *layout.states, *layout.params)],
        )
    )
    return Source(cell.name, code, _headers("cpu/lib"), plan)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("rnnc.templates", "."),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


@cache
def _headers(folder: str) -> tuple[tuple[str, str], ...]:
    path = resources.files("rnnc.templates").joinpath(folder)
    files = sorted((f for f in path.iterdir() if f.is_file()), key=lambda f: f.name)
    return tuple((f"lib/{f.name}", f.read_text()) for f in files)
