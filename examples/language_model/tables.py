"""The tables of language models: what they learn, and how fast."""

from typing import Any

from rich.table import Table
from rnnc.bench.table import plain_table


def runs_table(runs: list[dict[str, Any]], before: dict[str, float | None] | None = None) -> Table:
    """The runs, the lowest perplexity of a size and context first.

    Args:
        runs: as the record has them.
        before: perplexities of an earlier record, by name of the run; None for none.
    """
    words = ["model", "size", "comparison", "context x batch"]
    figures = ["parameters", "tokens read", "passes", "seconds", "tokens per second", "memory, GB"]
    more = ["committed"] if before else []
    table = plain_table("Language models", words, [*figures, "perplexity", *more])
    for run in sorted(runs, key=lambda r: (r["size"], r["context"], r["perplexity"] or 1e9)):
        row = [
            run["label"],
            run["size"],
            run["by"] or "alone",
            f"{run['context']} x {run['batch']}",
            f"{run['parameters'] / 1e6:.1f} M",
            f"{run['tokens'] / 1e6:.1f} M",
            f"{run['passes']:.2f}",
            f"{run['seconds']:.0f}" + ("" if run["complete"] else ", cut"),
            f"{run['tokens_per_second'] / 1e3:.0f} k",
            gigabytes(run["memory"]),
            number(run["perplexity"]),
        ]
        if before:
            row.append(number(before[run["name"]]) if run["name"] in before else "-")
        table.add_row(*row)
    return table


def speed_table(rows: list[dict[str, Any]]) -> Table:
    """Tokens per second of training by shape, beside the Transformer of the same shape."""
    numbers = ["tokens per second", "of the Transformer's", "memory, GB"]
    table = plain_table("Training", ["size, context x batch", "model"], numbers)
    beside = {
        _shape(row): row["tokens_per_second"]
        for row in rows
        if row["model"] == "transformer" and "failure" not in row
    }
    for row in sorted(rows, key=lambda r: (r["size"], r["context"], -r["batch"])):
        model = row["model"] + (", compiled" if row.get("compiled") else "")
        if "failure" in row:
            table.add_row(_shape(row), model, f"did not run: {row['failure'][:60]}")
            continue
        speed, peer = row["tokens_per_second"], beside.get(_shape(row))
        share = f"{100 * speed / peer:.0f} %" if peer else ""
        table.add_row(_shape(row), model, f"{speed / 1e3:.1f} k", share, gigabytes(row["memory"]))
    return table


def recurrences_table(rows: list[dict[str, Any]]) -> Table:
    """Milliseconds of the recurrent layers by themselves, forward and backward."""
    columns = ["rnnc, heads of 64, ms", "nn.LSTM, one head, ms", "times"]
    table = plain_table("Layers alone", ["units, dtype, B, T"], columns)
    by_size: dict[str, dict[str, float]] = {}
    for row in rows:
        sizes = f"{row['width']}, {row['dtype']}, {row['batch']}, {row['steps']}"
        by_size.setdefault(sizes, {})[row["model"]] = row["ms"]
    for sizes, ms in by_size.items():
        both = [ms.get(model) for model in ("lstm", "nn-lstm")]
        shown = ["-" if each is None else f"{each:.3g}" for each in both]
        table.add_row(sizes, *shown, f"{both[1] / both[0]:.1f}" if all(both) else "-")
    return table


def _shape(row: dict[str, Any]) -> str:
    return f"{row['size']}, {row['context']} x {row['batch']}"


def number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2f}"


def gigabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e9:.1f}"
