"""The reference: one page for each group of public names, which mkdocstrings fills from docstrings.

The functions of the language have no Python function that holds a docstring. Their page is a table,
from the table that the compiler reads.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import rnnc
from rnnc.cellspec.functions import TABLE

ROOT = Path(__file__).parents[2]
# The package as a wheel has it, and the copy of its texts that griffe reads.
WHEEL, TEXTS = ROOT / "build" / "wheel" / "rnnc", ROOT / "build" / "reference" / "rnnc"
# griffe's name of a section with examples is a plural.
_EXAMPLE = re.compile(r"^(\s+)Example:$", re.MULTILINE)
# Each page: its title, its first lines, and its names. `write` fails if a public name is on none.
PAGES = {
    "cells": (
        "Cells",
        "What a cell is made of, how to define one, and how to find one of the library. "
        "[The language](../language.md) explains what a cell's function may hold.",
        "rnnc.cell rnnc.Cell rnnc.Gate rnnc.State rnnc.Param rnnc.Input rnnc.Constant rnnc.gate"
        " rnnc.state rnnc.param rnnc.constant rnnc.bernoulli rnnc.uniform rnnc.normal rnnc.repeat"
        " rnnc.replace_gradient rnnc.mean rnnc.total rnnc.largest rnnc.softmax rnnc.layer_norm"
        " rnnc.rms_norm rnnc.zoneout rnnc.noisy rnnc.cells.names rnnc.cells.get",
    ),
    "running": (
        "Running a cell",
        "A cell as a torch module, as a function of tensors, and one step at a time.",
        "rnnc.RNN rnnc.scan rnnc.scan_packed rnnc.Stepper rnnc.warmup rnnc.free_memory"
        " rnnc.upgrade_optimizer_state",
    ),
    "nn": (
        "rnnc.nn",
        "torch's recurrent modules on the kernels of rnnc, and `rnnc.convert`, which changes the "
        "modules of a model into these. [Coming from nn.LSTM](../nn.md) says what is the same.",
        "rnnc.convert rnnc.nn.LSTM rnnc.nn.GRU rnnc.nn.RNN rnnc.nn.LSTMCell rnnc.nn.GRUCell"
        " rnnc.nn.RNNCell rnnc.nn.PlainLSTM rnnc.nn.PlainGRU rnnc.nn.PlainRNN"
        " rnnc.nn.PlainLSTMCell rnnc.nn.PlainGRUCell rnnc.nn.PlainRNNCell",
    ),
    "distributed": (
        "rnnc.distributed",
        "Recurrent layers in several processes of `torch.distributed`. "
        "[Several GPUs](../distributed.md) says which to take.",
        "rnnc.distributed.HeadwiseParallel rnnc.distributed.SequenceParallel"
        " rnnc.distributed.reduce_gradients rnnc.distributed.save_policy"
        " rnnc.distributed.SAVED_OPERATORS",
    ),
    "init": (
        "rnnc.init",
        "Initial values for the weights of `rnnc.RNN`, per head and gate.",
        "rnnc.init.orthogonal_ rnnc.init.xavier_uniform_ rnnc.init.xavier_normal_"
        " rnnc.init.constant_",
    ),
    "plans": (
        "Plans",
        "Which kernels a GPU can run, and why.",
        "rnnc.plan_for rnnc.Shape rnnc.Limits",
    ),
    "errors": (
        "Errors",
        "All errors that rnnc raises on purpose.",
        "rnnc.RnncError rnnc.CellError rnnc.TensorError rnnc.PlanError rnnc.CompileError"
        " rnnc.NoCompilerError rnnc.NoCudaError rnnc.UnknownGpuError rnnc.SecondOrderError"
        " rnnc.TransformError rnnc.BackwardError rnnc.SettingError rnnc.ResidencyError",
    ),
}
FUNCTIONS = "functions"
_INTRODUCTION = (
    "The public names of rnnc, from their docstrings. [The Python API](../api.md) explains how "
    "they work together.\n"
)


def shown() -> set[str]:
    """All names that have a page."""
    return {name for _, _, names in PAGES.values() for name in names.split()} | {
        f"rnnc.{name}" for name in TABLE
    }


def public() -> set[str]:
    """All public names of the package and of its public modules."""
    found = {f"rnnc.{name}" for name in dir(rnnc) if not name.startswith("_")}
    modules = {name for name in found if isinstance(getattr(rnnc, name[5:]), ModuleType)}
    for module in modules - {"rnnc.cells"}:  # its other names are the cells
        own = getattr(rnnc, module[5:])
        names = getattr(own, "__all__", [n for n in vars(own) if n[0] != "_" and n[0].islower()])
        found |= {f"{module}.{name}" for name in names}
    return found - modules | {"rnnc.cells.names", "rnnc.cells.get"}


def write(output: Path) -> None:
    """Write the pages.

    Args:
        output: the folder of the site's pages.

    Raises:
        ValueError: a public name is on no page.
    """
    missing = sorted(public() - shown())
    if missing:
        raise ValueError(f"docs/site/reference.py has no page for {', '.join(missing)}")
    _copy_texts()
    folder = output / "reference"
    folder.mkdir()
    index = ["# Reference", "", _INTRODUCTION]
    for key, (title, text, names) in PAGES.items():
        entries = "".join(f"::: {name}\n\n" for name in names.split())
        (folder / f"{key}.md").write_text(f"# {title}\n\n{text}\n\n{entries}", encoding="utf-8")
        listed = ", ".join(f"[`{name}`][{name}]" for name in names.split())
        index.append(f"- [{title}]({key}.md): {listed}")
    index.append(f"- [Functions]({FUNCTIONS}.md): " + ", ".join(f"`{name}`" for name in TABLE))
    (folder / "index.md").write_text("\n".join(index) + "\n", encoding="utf-8")
    (folder / f"{FUNCTIONS}.md").write_text(_functions(), encoding="utf-8")


def _copy_texts() -> None:
    for file in (*WHEEL.rglob("*.py"), *WHEEL.rglob("*.pyi")):
        copy = TEXTS / file.relative_to(WHEEL)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_EXAMPLE.sub(r"\1Examples:", file.read_text("utf-8")), encoding="utf-8")


def _functions() -> str:
    rows = [f"| `{row.signature}` | {row.doc} |" for row in TABLE.values()]
    return "\n".join(
        [
            "# Functions",
            "",
            "The functions that a cell may call, from the compiler's own table. Arguments are",
            "gates, states, params, inputs, constants and numbers.",
            "[The language](../language.md#functions) shows each with an example.",
            "",
            "| function | value |",
            "|---|---|",
            *rows,
            "",
        ]
    )
