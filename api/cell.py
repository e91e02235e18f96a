"""`rnnc.Cell`: a cell with the doors that users open on it; each hands on to a stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from .cellspec.cell import CellSpec
from .cellspec.trace import trace
from .codegen.derive import derive
from .codegen.plan import CpuPlan, Dtype
from .codegen.render import Source, render


class Cell(CellSpec):
    """A recurrent cell: made by `@rnnc.cell` from equations, or found in `rnnc.cells`.

    Frozen, hashable and plain data: `to_json` and `from_json` round-trip it, `fingerprint` names
    it on any machine, `equations` and `latex` show it.

    Example:
        >>> import rnnc
        >>> rnnc.cells.lstm.input_gates
        ('i', 'f', 'z', 'o')
    """

    @classmethod
    def of(cls, spec: CellSpec) -> Self:
        """The cell of a bare description, as the library's files and other packages give it."""
        return cls(**{name: getattr(spec, name) for name in type(spec).model_fields})

    def backward_equations(self) -> tuple[str, ...]:
        """The derived backward in a line for each statement: `d_h` is the gradient of `h`.

        `h_next` is the new value of the state `h`, and `d_h_next` its gradient, as it comes in.

        Example:
            >>> import rnnc
            >>> rnnc.cells.elman.backward_equations()
            ('d_g = d_h_next*(1 - h_next**2)', 'd_h = 0')
        """
        return tuple(map(str, derive(self).backward.statements))

    def cpp(self, dtype: Dtype = "float32") -> Source:
        """The C++ source of the cell's CPU kernels; `print` shows it.

        Args:
            dtype: `"float32"` or `"float64"`.

        Example:
            >>> import rnnc
            >>> "pointwise_backward" in rnnc.cells.lstm.cpp().code
            True
        """
        return render(derive(self), CpuPlan(dtype))


def cell(function: Callable[..., Any]) -> Cell:
    """Make a cell of a function: a decorator.

    The arguments are annotated `Gate`, `State`, `Param` or `Constant`; options come as defaults
    made by `gate()`, `state()`, `param()` and `constant()`. The function runs once, on symbols,
    and returns the new value of each state, in the order of the signature; the first state is the
    output.

    Raises:
        CellError: the function is not in the language; says where, what was found, what was
            wanted and what to write.

    Example:
        >>> import rnnc
        >>> from rnnc import Constant, Gate, State, constant, tanh
        >>> @rnnc.cell
        ... def leaky(g: Gate, h: State, alpha: Constant = constant(0.1)):
        ...     return (1 - alpha) * h + alpha * tanh(g)
        >>> leaky.equations()[-1]
        "h' = alpha*tanh(g) + h*(1 - alpha)"
    """
    return trace(function, Cell)
