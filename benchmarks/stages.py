"""Times `rnnc.scan` of cells with stages in the plans that run them, and as a loop of torch.

    python benchmarks/stages.py [--json table.json]

It times as `rnnc bench --scans` does cells without R: on a GPU, in turns, on the same tensors.
"reference" is the loop over operations of torch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rnnc.bench.report import Record
from rnnc.bench.rows import Row
from rnnc.bench.scans.cases import ScanCase
from rnnc.bench.scans.measure import measure_scans
from rnnc.bench.scans.table import reasons, scans_table
from rnnc.cli.console import print_lines, print_table

WAYS = {
    64: ("block", "alternating", "reference"),
    256: ("cluster", "alternating"),
    768: ("grid", "alternating"),
}  # by the units of a head
CASES = [
    *(
        ScanCase(Row(cell, *heads), ways=WAYS[heads[1]], peers=())
        for cell in ("gru_reset_first", "joint_norm_lstm", "lem")
        for heads in ((12, 64), (3, 256), (1, 768))
    ),
    ScanCase(Row("block_gru", 8, 64, steps=512), ways=WAYS[64], peers=()),
]


def main(
    dtype: Annotated[str, typer.Option(help="Of the tensors.")] = "bfloat16",
    repeat: Annotated[int, typer.Option(help="Timed runs of each.")] = 20,
    output: Annotated[Path | None, typer.Option("--json", help="A file for the table.")] = None,
) -> None:
    """Measure, and print a table."""
    record, found = Record("cuda", f"python {' '.join(sys.argv)}"), []
    record.into(output)
    for case in CASES:
        found.append(measure_scans(case, "cuda", dtype, 1.0, repeat))
        record.write(cases=[result.record() for result in found])
    print_table(scans_table(found))
    print_lines(reasons(found))


if __name__ == "__main__":
    typer.run(main)
