"""`rnnc show`: a cell as equations, LaTeX, JSON, or the source of its kernels."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...codegen.shape import Dtype
from ..options import CellWord, ReverseOption, Scalar, gpu_words, variant_words

if TYPE_CHECKING:
    from ...cellspec.cell import CellSpec


class What(StrEnum):
    """Part of a cell that `rnnc show` shows."""

    EQUATIONS = "equations"
    BACKWARD = "backward"
    LATEX = "latex"
    CPP = "cpp"
    CUDA = "cuda"
    PROGRAM = "program"
    JSON = "json"


_BACKWARD = (
    "# d_x is the gradient of x, s_next a state's new value; the matrix products are not shown"
)
_CPU_SCALARS = (Scalar.FLOAT32, Scalar.FLOAT64)
# The options that only some texts have, and their names in messages.
_WORDS = {
    "dtype": "scalar type",
    "heads": "heads",
    "head_dim": "head dim",
    "gpu": "GPU",
    "variant": "variant",
    "features": "features",
    "reverse": "reversed time",
    "layers": "layers",
    "steps": "steps",
    "batch": "batch rows",
    "bidirectional": "second direction",
}
_KERNEL = {"dtype", "heads", "head_dim", "gpu", "variant"}
_OPTIONS = {
    What.CPP: {"dtype", "reverse"},
    What.CUDA: {*_KERNEL, "features", "reverse"},
    What.PROGRAM: {*_KERNEL, "layers", "steps", "batch", "bidirectional"},
}


def show_command(
    cell: CellWord,
    what: Annotated[What, typer.Option(help="What to show of the cell.")] = What.EQUATIONS,
    dtype: Annotated[
        Scalar | None,
        typer.Option(help="The scalar type of --what cpp (float32), cuda or program (bfloat16)."),
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="With --what cuda or program: the number of heads (1).")
    ] = None,
    head_dim: Annotated[
        int | None, typer.Option(help="With --what cuda or program: units per head (64).")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            help="With --what cuda or program: the GPU, as `rnnc limits` names it (H200).",
            autocompletion=gpu_words,
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="With --what cuda or program: the kind of plan (auto).",
            autocompletion=variant_words,
        ),
    ] = None,
    reverse: ReverseOption = False,
    features: Annotated[
        int | None,
        typer.Option(
            help="With --what cuda: features of a module's input, for a single step of its layers."
        ),
    ] = None,
    layers: Annotated[int | None, typer.Option(help="With --what program: layers (1).")] = None,
    steps: Annotated[int | None, typer.Option(help="With --what program: steps (1024).")] = None,
    batch: Annotated[int | None, typer.Option(help="With --what program: rows (16).")] = None,
    bidirectional: Annotated[
        bool, typer.Option("--bidirectional", help="With --what program: both directions of time.")
    ] = False,
) -> None:
    """Show a cell: equations, derived backward, LaTeX, generated C++ or CUDA, or JSON.

    --what program shows what a training call of a module asks of a GPU, forward and backward: each
    launch, product, copy and wait, in the order of issue, with the memory that it uses. No GPU is
    needed.
    """
    options: dict[str, Any] = {
        "dtype": dtype and dtype.value,
        "heads": heads,
        "head_dim": head_dim,
        "gpu": gpu,
        "variant": variant,
        "reverse": reverse or None,
        "features": features,
        "layers": layers,
        "steps": steps,
        "batch": batch,
        "bidirectional": bidirectional or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in _OPTIONS.get(what, ()):
            hint = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"--what {what} has no {_WORDS[name]}", param_hint=hint)
    if what is What.CPP and dtype and dtype not in _CPU_SCALARS:
        raise typer.BadParameter(
            f"--what cpp takes {' or '.join(_CPU_SCALARS)}", param_hint="--dtype"
        )
    from ..console import print_code, print_lines
    from ..find import find_cell
    from ..progress import stage

    found = find_cell(cell)
    match what:
        case What.EQUATIONS:
            print_lines(_with_values(found))
        case What.BACKWARD:
            print_lines("\n".join([_BACKWARD, *found.backward_equations()]))
        case What.LATEX:
            print_code(found.latex(), "latex")
        case What.CPP:
            scalar: Dtype = dtype.value if dtype else "float32"
            with stage(f"writing the C++ of {found.name}"):
                text = found.cpp(scalar, reverse=reverse)
            print_code(text.code, "cpp")
        case What.CUDA:
            with stage(f"writing the CUDA of {found.name}"):
                source = found.cuda(**given)
            print_code(source.code, "cuda")
        case What.PROGRAM:
            from ..program import Sizes, program_of

            name = given.pop("gpu", "H200")
            with stage(f"writing the program of {found.name}"):
                program = program_of(found, Sizes(**given), name)
            print_lines(program)
        case What.JSON:
            print_code(found.to_json(), "json")


def _with_values(cell: CellSpec) -> str:
    """The equations of a cell, what they start from, what is drawn, and how its units meet."""
    from ...cellspec.noise.mean import notes_on_draws
    from ...cellspec.stages.words import notes_on_exchanges

    values = [
        *(f"{c.name} = {c.value:g}" for c in cell.constants),
        *(
            f"{i.name} is an input of each step, which no weight multiplies"
            for i in cell.inputs
            if i.name not in cell.drawn
        ),
        *notes_on_draws(cell),
        *(f"{p.name} is learned, a value per unit, and starts at {p.init:g}" for p in cell.params),
        *(f"{s.name} starts at {s.init:g}" for s in cell.states if s.init),
    ]
    values += [f"recurrence: {cell.recurrence}", *notes_on_exchanges(cell)]
    return "\n".join([str(cell), *(f"  {value}" for value in values)])
