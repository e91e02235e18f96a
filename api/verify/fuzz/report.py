"""Writes a failure as a complete Python test: cell, loop, inputs and comparison."""

from __future__ import annotations

from inspect import getsource

from ..draw.tree import Case
from ..draw.write_cell import cell_text
from ..draw.write_loop import loop_text
from ..program import program
from .by_rows import by_rows
from .columns import column_of
from .draws import drawn_names
from .judge import EXACT
from .ours import COMPILERS, has_rows, parameter_name, rows_of
from .tensors import draw_values, is_given

# The errors that the text allows; the fuzzer itself compares with a loop in the same dtype.
_SHARES = {"float64": EXACT, "float32": 1e-4, "float16": 3e-2, "bfloat16": 2e-1}


def report(case: Case, reasons: tuple[str, ...]) -> str:
    """The text of a test.

    Args:
        case: a case that fails.
        reasons: what was wrong.
    """
    values, seeds = draw_values(case, case.seed)
    kept = {name: rows_of(t) if has_rows(name) else t for name, t in values.items()}
    # What runs rows one by one, where there are lengths or resets; and what reads inputs.
    used = [by_rows] * bool(case.rows) + [column_of] * bool(case.cell.inputs)
    return program(
        "drawn.py.jinja",
        case=case,
        reasons=reasons,
        cell_text=cell_text(case.cell),
        loop_text=loop_text(case.cell),
        sources=[getsource(function) for function in used],
        states=[s.name for s in case.cell.states],
        starts=[s.value for s in case.cell.states],
        params=[p.name for p in case.cell.params],
        inputs=[i.name for i in case.cell.inputs],
        values={_leaf(case, name): t for name, t in kept.items()},
        seeds={name: t for name, t in seeds.items() if name not in case.silent},
        without=[_leaf(case, name) for name in case.without],
        # What the call drew lies in no view, and the program passes it.
        views={n: _view_text(view) for n, view in case.views if n not in drawn_names(case)},
        resets=[[t in resets for t in range(case.steps)] for _, resets in case.rows],
        compiler=COMPILERS.get(case.through, ""),
        allowed=_SHARES[case.dtype],
    )


def _leaf(case: Case, name: str) -> str:
    """The name of a tensor in the text; parameters of a module have the module's names."""
    fixed = case.through == "scan" or is_given(name)
    return name if fixed else parameter_name(name)


def _view_text(view: str) -> str:
    kind, _, axis = view.partition(":")
    return {
        "transposed": "lambda t: t.permute(*range(t.ndim)[::-1]).contiguous()"
        ".permute(*range(t.ndim)[::-1])",
        "offset": "lambda t: torch.cat([t[:1], t])[1:]",
        "strided": "lambda t: t.repeat_interleave(2, -1)[..., ::2]",
        "expanded": f"lambda t: t.narrow({axis or 0}, 0, 1).expand_as(t)",
        "negative": "lambda t: torch._neg_view(-t)",
    }[kind]
