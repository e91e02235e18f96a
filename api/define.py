"""`rnnc.Cell`, a cell with its generated sources, and `@rnnc.cell`, which makes one."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Self, overload

from pydantic import BaseModel

from .cellspec.cell import CellSpec
from .cellspec.errors import CellError
from .cellspec.tracing.trace import trace
from .codegen.cpu.plan import CpuPlan
from .codegen.cuda.limits import Limits, limits_of
from .codegen.cuda.planner import plan_for
from .codegen.cuda.source import CudaSource, cuda_source
from .codegen.derive import derive
from .codegen.render import Source, render
from .codegen.shape import Dtype, Save, Shape


class Cell(CellSpec):
    """A recurrent cell, made by `@rnnc.cell` from equations or found in `rnnc.cells`.

    A cell is frozen, hashable data. `to_json` and `from_json` round-trip it, `fingerprint` is its
    digest on any machine, `equations` and `latex` show it. `rnnc.scan` and `rnnc.RNN` run it.

    Example:
        >>> import rnnc
        >>> rnnc.cells.fastgrnn
        <rnnc.Cell fastgrnn: gates g; states h; params b_z b_h zeta nu>
        >>> rnnc.cells.lstm.input_gates
        ('i', 'f', 'z', 'o')
    """

    @classmethod
    def of(cls, spec: CellSpec) -> Self:
        """The same cell with the methods of this class.

        Args:
            spec: a cell as data, from the library or from another package.

        Example:
            >>> import rnnc
            >>> from rnnc.cellspec.library import load
            >>> rnnc.Cell.of(load("elman")) == rnnc.cells.elman
            True
        """
        return cls(**{name: getattr(spec, name) for name in type(spec).model_fields})

    def __repr__(self) -> str:
        names = ("gates", "states", "inputs", "params", "constants")
        kinds = {name: getattr(self, name) for name in names}
        parts = [f"{kind} {' '.join(d.name for d in ds)}" for kind, ds in kinds.items() if ds]
        return f"<rnnc.Cell {self.name}: {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        # A notebook shows the card, and the plan of an ordinary size.
        from .report.contents import Report
        from .report.page import card_of

        return card_of(Report.of(self, Shape(1, 64), limits_of("H200")))

    def __dir__(self) -> list[str]:
        # Tab completion offers what belongs to cells, and nothing of pydantic.
        return [
            name
            for name in super().__dir__()
            if name.startswith("__") or not (name.startswith("_") or hasattr(BaseModel, name))
        ]

    def backward_equations(self) -> tuple[str, ...]:
        """The derived backward of one step, one line per statement.

        `d_h` is the gradient of `h`, `h_next` is the new value of the state `h`, and `d_h_next` is
        the gradient of that value. The matrix products are not part of it.

        Example:
            >>> import rnnc
            >>> rnnc.cells.elman.backward_equations()
            ('d_g = d_h_next*(1 - h_next**2)', 'd_h = 0')
        """
        return derive(self).backward.lines()

    def cpp(self, dtype: Dtype = "float32", *, reverse: bool = False) -> Source:
        """The C++ source of the cell's CPU kernels; `print` shows it.

        Args:
            dtype: the dtype of all tensors, `"float32"` or `"float64"`.
            reverse: whether the cell runs from the last step to the first.
            features: of a module's input, for the kernels of a single step of its layers; None for
                those of calls over time.

        Returns:
            A frozen value with the text in `code` and the included files in `headers`.

        Example:
            >>> import rnnc
            >>> "pointwise_backward" in rnnc.cells.lstm.cpp().code
            True
        """
        return render(derive(self), CpuPlan(dtype, reverse))

    def cuda(
        self,
        *,
        heads: int = 1,
        head_dim: int = 64,
        dtype: Dtype = "bfloat16",
        gpu: str | Limits = "H200",
        variant: str = "auto",
        batch: int = 16,
        save: Save = "gates",
        reverse: bool = False,
        features: int | None = None,
    ) -> CudaSource:
        """The CUDA source of the cell's kernels for a GPU; `print` shows it. No GPU is needed.

        Args:
            heads: number of heads; each has its own recurrent matrix.
            head_dim: number of units per head.
            dtype: the dtype of all tensors: `"bfloat16"`, `"float16"`, `"float32"` or `"float64"`.
            gpu: a name that `rnnc limits` shows, or a `Limits` with the numbers of another GPU.
            variant: `"block"`, `"cluster"`, `"grid"`, `"walk"`, `"scan"`, `"alternating"`, or
                `"auto"` for the cheapest feasible plan of each direction.
            batch: number of batch rows. It affects the choice of the plan and does not appear in
                the source: batch, heads and steps are run-time values.
            save: with `"gates"` the forward saves the values of gates that the backward needs; with
                `"states"` it saves only the states, and the backward computes the gates again.
            reverse: whether the cell runs from the last step to the first.
            features: of a module's input, for the kernels of a single step of its layers; None for
                those of calls over time.

        Returns:
            A frozen value: `forward` and `backward` are the texts of the two translation units,
            `code` is both texts in this order, `headers` are the included files, `plan` gives the
            sizes of the kernels and the reason for them, and `kernels` has the translation unit of
            each kernel by its name.

        Raises:
            UnknownGpuError: there is no preset of this name.
            PlanError: a size, dtype, variant or save is unknown, or there is no plan of that
                variant; names the limit that binds and the nearest size that fits.

        Example:
            >>> import rnnc
            >>> source = rnnc.cells.lstm.cuda(heads=12, head_dim=64, dtype="bfloat16", gpu="H200")
            >>> source.plan.variant
            'block+cluster'
            >>> "rnnc_backward" in source.code, "rnnc_backward" in source.forward
            (True, False)
        """
        limits = gpu if isinstance(gpu, Limits) else limits_of(str(gpu))
        shape = Shape(heads, head_dim, batch, dtype=dtype)
        plan = plan_for(self, shape, limits, variant, save=save, features=features)
        return cuda_source(self, plan.in_time(reverse))


@overload
def cell(function: Callable[..., Any]) -> Cell: ...
@overload
def cell() -> Callable[[Callable[..., Any]], Cell]: ...
def cell(function: Callable[..., Any] | None = None) -> Any:
    """Make a cell from a function; a decorator, with or without brackets.

    Each argument is annotated `Gate`, `State`, `Input`, `Param` or `Constant`. Defaults made by
    `gate()`, `state()`, `param()` and `constant()` set their options. The function runs once, on
    symbols, and returns the new value of each state, in the order of the signature. The first state
    is the output.

    Args:
        function: the equations of one unit and one step.

    Raises:
        CellError: the function is not in the language of cells; `write` says what to change.

    Example:
        >>> import rnnc
        >>> from rnnc import Constant, Gate, State, constant, tanh
        >>> @rnnc.cell
        ... def leaky(g: Gate, h: State, alpha: Constant = constant(0.1)):
        ...     return (1 - alpha) * h + alpha * tanh(g)
        >>> leaky.equations()[-1]
        "h' = (1 - alpha)*h + alpha*tanh(g)"
    """
    if function is None:
        return cell
    try:
        return trace(function, Cell)
    except CellError as error:
        stand_in = STAND_IN.get()
        if stand_in is None:
            raise
        found: Cell = stand_in(function, error)
        return found


# Makes a substitute for a cell that has an error, while a command loads a user's file, so that the
# other cells of the file stay usable.
STAND_IN: ContextVar[Callable[[Callable[..., Any], CellError], Any] | None] = ContextVar(
    "stand_in", default=None
)
