"""`rnnc bench`: measures rnnc, torch's own RNNs, FlashRNN and loops in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import cell_words

_KINDS = "scan, module, nn, flashrnn, flashrnn-alternating, flashrnn-packed, loop, compile"


def bench_command(
    context: typer.Context,
    rows: Annotated[
        str | None,
        typer.Option(help="Rows of the table of sizes: 1,2,3, or 1-9, or all; 2 by default."),
    ] = None,
    cell: Annotated[
        str | None,
        typer.Option(
            help="A cell, as `rnnc show` takes it, instead of --rows.", autocompletion=cell_words
        ),
    ] = None,
    heads: Annotated[int | None, typer.Option(help="Heads; the row's, or 1.")] = None,
    head_dim: Annotated[int | None, typer.Option(help="Units per head; the row's, or 64.")] = None,
    batch: Annotated[int | None, typer.Option(help="Batch rows; the row's, or 16.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps; 1024 by default.")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Some of bfloat16,float16,float32; on a GPU the first two."),
    ] = None,
    peer_dtype: Annotated[
        str | None,
        typer.Option(help="Further dtypes for torch's RNNs; on a GPU float16, the fastest."),
    ] = None,
    contenders: Annotated[
        str, typer.Option(help=f"Some of {_KINDS}.", metavar="KINDS")
    ] = "scan,module,nn,flashrnn",
    eager: Annotated[
        bool, typer.Option("--eager", help="Run the eager loop at all steps too.")
    ] = False,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Run torch.compile of a loop, at 32 steps.")
    ] = False,
    first: Annotated[
        bool,
        typer.Option("--first", help="Measure the seconds to a first result in a new process."),
    ] = False,
    queued: Annotated[
        bool, typer.Option("--queued", help="Keep the GPU busy, to hide the host's time.")
    ] = False,
    ahead: Annotated[
        bool, typer.Option("--ahead", help="First compile all kernels of a GPU, on all cores.")
    ] = False,
    repeat: Annotated[int, typer.Option(help="Timed runs of each contender.", min=1)] = 30,
    limit: Annotated[float | None, typer.Option(help="Seconds for all rows together.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cuda if there is a GPU.")] = None,
    anchors: Annotated[
        Path | None,
        typer.Option(help="A JSON file of targets and other libraries' times to compare with."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The folder for a JSON file and a picture.")
    ] = None,
) -> None:
    """Measure rnnc and its peers side by side: forward, forward + backward, inference, memory.

    All contenders of a row get the same inputs and take turns. A contender that fails is
    shown with its reason.
    """
    from ..bench import Sizes, Wishes, bench

    bench(
        Wishes(
            rows=rows,
            cell=cell,
            sizes=Sizes(heads, head_dim, batch, steps),
            dtypes=dtype,
            peer_dtypes=peer_dtype,
            contenders=contenders,
            eager=eager,
            compiled=compiled,
            first=first,
            queued=queued,
            ahead=ahead,
            repeat=repeat,
            limit=limit,
            device=device,
            anchors=anchors,
            output=output,
            command=_command(context),
        )
    )


def _command(context: typer.Context) -> str:
    """The command line without --output, which is the machine's own."""
    words = ["rnnc bench"]
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        source = context.get_parameter_source(name)
        if name != "output" and source is not None and source.name == "COMMANDLINE":
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    return " ".join(words)
