"""From a derived cell and a plan to source text: the only file that knows Jinja."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

import jinja2

from .cuda.alternating.plan import AlternatingPlan
from .cuda.block.plan import BlockPlan
from .cuda.cluster.plan import ClusterPlan
from .cuda.grid.plan import GridPlan
from .derive import Pointwise
from .emit import emit_used_functions
from .layout import layout_of
from .plan import CpuPlan, Plan
from .pointwise_functions import pointwise_functions
from .shape import Dtype
from .spaces import numbers


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
    plan: Plan

    @property
    def digest(self) -> str:
        """A digest of all of the text."""
        return hashlib.sha256(repr((self.code, self.headers)).encode()).hexdigest()

    def __str__(self) -> str:
        return self.code


def render(pointwise: Pointwise, plan: Plan) -> Source:
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
    target = _TARGETS[type(plan)]
    layout = layout_of(cell)
    code = (
        _environment()
        .get_template(target.template)
        .render(
            cell=cell,
            equations=cell.equations(),
            plan=plan,
            plan_name=_name(cell.name, plan),
            scalar=None if isinstance(plan, CpuPlan) else _CUDA_SCALARS[plan.dtype],
            pointwise=pointwise,
            layout=layout,
            numbers=numbers,
            source_names=layout.sources.space.names,
            reads=["true" if r else "false" for r in states_read_before(pointwise)],
            reaches=_reaches(pointwise),
            functions=emit_used_functions(
                [pointwise.forward, pointwise.backward], provided=target.provides
            ),
            **pointwise_functions(pointwise, sorted(target.provides)),
        )
    )
    return Source(cell.name, code, _headers(target.headers), plan)


def states_read_before(pointwise: Pointwise) -> tuple[bool, ...]:
    """For each state, whether the backward reads its values before or after a step."""
    layout = layout_of(pointwise.cell)
    read = {r.removesuffix("_next") for r in pointwise.reads}
    return tuple(
        layout.states[s] in read or s in layout.diagonal_sources.values for s in layout.states
    )


def _reaches(pointwise: Pointwise) -> dict[str, list[list[str]]]:
    """For each state, whether its gradient after a step reaches those of gates, states, params."""
    layout, reach = layout_of(pointwise.cell), pointwise.backward.reach()
    return {
        kind: [
            ["true" if f"d_{s}_next" in reach[f"d_{n}"] else "false" for n in names]
            for s in layout.states.names
        ]
        for kind, names in (
            ("Gate", layout.gates.names),
            ("State", layout.states.names),
            ("Param", layout.params.names),
        )
    }


@dataclass(frozen=True)
class _Target:
    """Where a plan's text comes from, and which rows of the table its headers spell themselves.

    A forward is passed those, so that a kernel can choose how exact they are.
    """

    template: str
    headers: str
    provides: frozenset[str] = frozenset()


_TARGETS = {
    CpuPlan: _Target("cpu/kernel.cpp.jinja", "cpu/lib"),
    BlockPlan: _Target("cuda/block.cu.jinja", "cuda/lib", frozenset({"sigmoid"})),
    GridPlan: _Target("cuda/grid.cu.jinja", "cuda/lib", frozenset({"sigmoid"})),
    ClusterPlan: _Target("cuda/cluster.cu.jinja", "cuda/lib", frozenset({"sigmoid"})),
    AlternatingPlan: _Target("cuda/alternating.cu.jinja", "cuda/lib", frozenset({"sigmoid"})),
}


# Plans whose blocks wait for each other, and say which they are where they wait in vain.
_WAITING = {ClusterPlan: "cluster", GridPlan: "grid"}


def _name(cell: str, plan: Plan) -> str:
    if not isinstance(plan, ClusterPlan | GridPlan):
        return ""
    return f"{cell}, {_WAITING[type(plan)]} plan of head dim {plan.head_dim}"


@dataclass(frozen=True)
class _Scalar:
    """The C++ types of a number in memory and in registers, and how exact its functions are."""

    element: str
    real: str
    accuracy: str


_CUDA_SCALARS: dict[Dtype, _Scalar] = {
    "bfloat16": _Scalar("struct bfloat16", "float", "kBfloat16"),
    "float16": _Scalar("struct float16", "float", "kFloat16"),
    "float32": _Scalar("float", "float", "kExact"),
    "float64": _Scalar("double", "double", "kExact"),
}


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
    with resources.as_file(path) as root:
        files = sorted(f for f in root.rglob("*") if f.suffix in {".h", ".cuh"})
        return tuple((f"lib/{f.relative_to(root).as_posix()}", f.read_text()) for f in files)
