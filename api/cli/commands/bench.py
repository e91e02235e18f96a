"""`rnnc bench`: measures rnnc, torch's own RNNs, FlashRNN and loops in one run."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, get_type_hints

import typer

from ...bench.contenders.kinds import DEFAULT_KINDS, KINDS
from ..options import cell_words


def _option(help: str, *names: str, default: object = None, **more: Any) -> Any:
    """A field that `_signature` turns into an option of typer."""
    return field(default=default, metadata={"option": ((default, *names), {"help": help, **more})})


@dataclass(frozen=True)
class BenchOptions:
    """The options of `rnnc bench`, each with its help."""

    rows: str | None = _option("Rows of the table of sizes: 1,2,3, or 1-9, or all; 2 by default.")
    cell: str | None = _option(
        "A cell, as `rnnc show` takes it, instead of --rows.", autocompletion=cell_words
    )
    users: bool = _option(
        "Time modules as users call them beside torch's, instead of rows.",
        "--users",
        default=False,
    )
    heads: int | None = _option("Heads; the row's, or 1.")
    head_dim: int | None = _option("Units per head; the row's, or 64.")
    batch: int | None = _option("Batch rows; the row's, or 16.")
    steps: int | None = _option("Steps; 1024 by default.")
    dtype: str | None = _option("Some of bfloat16,float16,float32; on a GPU the first two.")
    peer_dtype: str | None = _option(
        "Further dtypes for torch's RNNs; on a GPU float16, the fastest."
    )
    contenders: str = _option(
        f"Some of {', '.join(KINDS)}.", default=",".join(DEFAULT_KINDS), metavar="KINDS"
    )
    eager: bool = _option("Run the eager loop at all steps too.", "--eager", default=False)
    compiled: bool = _option(
        "Run torch.compile of a loop, at 32 steps.", "--compile", default=False
    )
    first: bool = _option(
        "Measure the seconds to a first result in a new process.", "--first", default=False
    )
    queued: bool = _option("Keep the GPU busy, to hide the host's time.", "--queued", default=False)
    ahead: bool = _option(
        "First compile all kernels of a GPU, on all cores.", "--ahead", default=False
    )
    repeat: int = _option("Timed runs of each contender.", default=30, min=1)
    limit: float | None = _option("Seconds for all rows together.")
    device: str | None = _option("cpu or cuda; cuda if there is a GPU.")
    anchors: Path | None = _option(  # noqa: RUF009 - a dataclass field
        "A JSON file of targets and other libraries' times to compare with."
    )
    output: Path | None = _option(  # noqa: RUF009 - likewise
        "The folder for a JSON file and a picture."
    )


def bench_command(context: typer.Context, **values: Any) -> None:
    """Measure rnnc and its peers side by side: forward, forward + backward, inference, memory.

    All contenders of a row get the same inputs and run in turns. A contender that fails is shown
    with its reason.
    """
    from ..bench import bench

    bench(BenchOptions(**values), _command_line(context))


def _signature() -> Signature:
    """The context and the options as parameters of a function, where typer looks for them."""
    types, kind = get_type_hints(BenchOptions), Parameter.KEYWORD_ONLY
    parameters = [Parameter("context", kind, annotation=typer.Context)]
    for each in fields(BenchOptions):
        names, more = each.metadata["option"]
        default = typer.Option(*names, **more)
        parameters.append(Parameter(each.name, kind, default=default, annotation=types[each.name]))
    return Signature(parameters)


bench_command.__signature__ = _signature()  # type: ignore[attr-defined]


def _command_line(context: typer.Context) -> str:
    """The command line without --output, which differs from machine to machine."""
    words = ["rnnc bench"]
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        source = context.get_parameter_source(name)
        if name != "output" and source is not None and source.name == "COMMANDLINE":
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    return " ".join(words)
