"""`rnnc bench`: measures rnnc, torch's own RNNs, FlashRNN and loops in one run."""

from __future__ import annotations

from dataclasses import fields
from inspect import Parameter, Signature
from typing import Any, get_type_hints

import typer

from ..bench.options import BenchOptions


def bench_command(context: typer.Context, **values: Any) -> None:
    """Measure rnnc and its peers side by side: forward, forward + backward, inference, memory.

    All contenders of a row get the same inputs and run in turns. A contender that fails is shown
    with its reason.
    """
    from ..bench.rows import bench

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
    """The command line without --output and --plot, which differ from machine to machine."""
    words = ["rnnc bench"]
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        source = context.get_parameter_source(name)
        if name not in ("output", "plot") and source is not None and source.name == "COMMANDLINE":
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    return " ".join(words)
