"""C++ of the matrix of a step of a scan's forward."""

from __future__ import annotations

from collections.abc import Sequence

from ....cellspec.cell import CellSpec
from ...emit_function import emit_lines
from ...layout import layout_of
from ...pointwise_functions import PointwiseFunction
from .form import Form


def coefficient_function(cell: CellSpec, form: Form, passed: Sequence[str]) -> PointwiseFunction:
    """The function of the matrix of a step, by gates, params and diagonal weights.

    Args:
        cell: the cell.
        form: of its forward.
        passed: functions of the table that the caller passes.
    """
    layout, program = layout_of(cell), form.coefficients
    assert program is not None
    # A gate that is called at a value of the step has weights that no entry reads.
    weights = tuple(name or f"_weight_{i}" for i, name in enumerate(form.weights))
    kinds = {"gate": layout.gates.names, "param": layout.params.names, "weight": weights}
    parameters = tuple(name for names in kinds.values() for name in names)
    return PointwiseFunction(
        emit_lines("step_coefficients", program, parameters, cell.constants, passed),
        parameters,
        tuple(str(output) for output in program.outputs),
        kinds,
        frozenset(symbol.name for symbol in program.inputs),
    )


def matrix_rows(form: Form) -> list[str]:
    """For each row of the matrix, its product with `column[j]` in C++."""
    assert form.coefficients is not None
    names = {str(output) for output in form.coefficients.outputs}
    count = len(form.carried)
    return [
        " + ".join(
            f"a_{row}_{k}*column[j][{k}]" for k in range(count) if f"a_{row}_{k}" in names
        )
        for row in range(count)
    ]
