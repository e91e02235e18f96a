"""The options of `rnnc bench`, each declared once: for typer, and for what the command does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...bench.contenders.contender import DEFAULT_KINDS, KINDS
from ..options import cell_words


def _option(help: str, *names: str, default: object = None, **more: Any) -> Any:
    """A field that `commands/bench.py` turns into an option of typer."""
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
    plans: bool = _option(
        "With --users on a GPU: time the best tilings of each kind of plan for the cases.",
        "--plans",
        default=False,
    )
    ragged: bool = _option(
        "Time rows of several lengths, and resets, instead of rows.", "--ragged", default=False
    )
    scans: bool = _option(
        "Time cells without R on a GPU beside what their bytes take, and beside other scans,"
        " instead of rows.",
        "--scans",
        default=False,
    )
    peers: bool = _option(
        "Check and time all peers over head dim, batch and length, instead of rows.",
        "--peers",
        default=False,
    )
    stages: bool = _option(
        "Time cells with stages beside loops of torch and other libraries, instead of rows.",
        "--stages",
        default=False,
    )
    cases: str | None = _option(
        "With --users, --ragged, --scans, --peers or --stages: a part of the cases' names, such as"
        " PPO, or their numbers, such as 1-3."
    )
    heads: int | None = _option("Heads; the row's, or 1.")
    head_dim: int | None = _option("Units per head; the row's, or 64.")
    batch: int | None = _option("Batch rows; the row's, or 16.")
    steps: int | None = _option("Steps; 1024 by default.")
    dtype: str | None = _option(
        "Some of bfloat16,float16,float32; on a GPU the first two, with --peers, --stages and"
        " --scans those of the cases."
    )
    peer_dtype: str | None = _option(
        "Further dtypes for torch's RNNs; on a GPU float16, the fastest."
    )
    contenders: str | None = _option(
        f"Some of {', '.join(KINDS)}; {','.join(DEFAULT_KINDS)} by default, and with --peers and"
        " --stages all but FlashRNN, which compiles half a minute for each size.",
        metavar="KINDS",
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
    json: Path | None = _option(  # noqa: RUF009 - likewise
        "With --users, --ragged, --peers, --stages or --scans: a JSON file to add to. Cases that it"
        " has are not measured again."
    )
    plot: Path | None = _option(  # noqa: RUF009 - likewise
        "A file for a picture of the table, such as users.svg."
    )
    output: Path | None = _option(  # noqa: RUF009 - likewise
        "The folder for a JSON file and a picture."
    )
