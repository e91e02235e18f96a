"""What a run leaves while it trains: rows of CSV, events of TensorBoard, a line of progress."""

import csv
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rnnc.cli.progress import stage

COLUMNS = "step tokens seconds loss rate tokens_per_second perplexity".split()
MISSING = "--tensorboard needs one more package: pip install tensorboard"


class Log:
    """Writes the rows of a run."""

    def __init__(self, name: str, steps: int, table: Path, events: Path | None) -> None:
        self.table, self.writer = table, events and open_events(events / name)
        self.name, self.steps, self.shown = name, steps, ExitStack()

    def __enter__(self) -> Self:
        self.stage = self.shown.enter_context(stage(f"training {self.name}", self.steps))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shown.close()
        if self.writer:
            self.writer.close()

    def show(self, rows: list[dict[str, Any]]) -> None:
        """Write the whole table again, and the last row to the others."""
        with self.table.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        if not rows:
            return
        row = rows[-1]
        told = f"loss {row['loss']:.3f}, {row['tokens_per_second'] / 1e3:.1f} k tokens/s"
        self.stage.at(row["step"], told)
        if self.writer:
            for name in COLUMNS[2:]:
                if row.get(name) is not None:
                    self.writer.add_scalar(name, row[name], row["step"])


def open_events(folder: Path) -> Any:
    """A writer of TensorBoard's events."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise SystemExit(MISSING) from None
    return SummaryWriter(str(folder))
