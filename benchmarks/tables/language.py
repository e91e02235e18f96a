"""The tables of the language models: what they learn, and how fast, on one GPU and on several."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from figures import missing, newest, of_newest, source, table

sys.path.insert(0, str(Path(__file__).parents[1]))
from ranks_plan import lines_of

# One holds the speeds too. Others are of the same models on another text.
_FILES = "language-model-*.json"
_COMPARISONS = {
    "tokens": "At equal tokens (a model that is too slow ends where it is)",
    "time": "At equal wall-clock",
}


def language_model(results: Path) -> str:
    """Perplexities of both comparisons, tokens per second, and the recurrences by themselves."""
    found = newest(results, _FILES, lambda content: bool(content["speed"]))
    if found is None:
        return missing("python examples/language_model.py compare")
    parts = _comparisons(found)
    if found["speed"]:
        parts += ["Tokens per second of training:", _speed(found["speed"]["rows"])]
        alone = found["speed"]["recurrences"]
        parts += ["An LSTM layer by itself, forward and backward:", _alone(alone)] if alone else []
    parts += [_pictures(found["path"]), _corpus(found["corpus"]), source(found)]
    for path in sorted(results.glob(_FILES)):
        other = json.loads(path.read_text("utf-8"))
        if not other["speed"] and other["date"] >= found["date"]:
            parts += [_corpus(other["corpus"]), *_comparisons(other), source(other)]
    return "\n\n".join(part for part in parts if part)


def _comparisons(found: dict[str, Any]) -> list[str]:
    """The runs of a file, by what they have in common."""
    parts = []
    for by, title in _COMPARISONS.items():
        runs = [run for run in found["runs"] if run["by"] == by]
        if runs:
            parts += [f"{title}:", _runs(runs)]
    return parts


def _runs(runs: list[dict[str, Any]]) -> str:
    lines = [
        "model|size|context x batch|parameters|tokens read|passes|seconds|tokens per second"
        "|memory, GB|perplexity"
    ]
    for run in sorted(runs, key=lambda r: (r["size"], r["context"], r["perplexity"] or 1e9)):
        cells = [
            run["label"],
            run["size"],
            f"{run['context']} x {run['batch']}",
            f"{run['parameters'] / 1e6:.1f} M",
            f"{run['tokens'] / 1e6:.1f} M",
            f"{run['passes']:.2f}",
            f"{run['seconds']:.0f}" + ("" if run["complete"] else ", cut"),
            f"{run['tokens_per_second'] / 1e3:.0f} k",
            _gigabytes(run["memory"]),
            f"{run['perplexity']:.2f}" if run["perplexity"] else "not finite",
        ]
        lines.append("|".join(cells))
    return table(lines)


def _speed(rows: list[dict[str, Any]]) -> str:
    """A row per shape and model, beside the Transformer of the same shape."""
    lines = ["size, context x batch|model|tokens per second|of the Transformer's|memory, GB"]
    shapes = {
        (r["size"], r["context"], r["batch"]): r["tokens_per_second"]
        for r in rows
        if r["model"] == "transformer" and "failure" not in r
    }
    for row in sorted(rows, key=lambda r: (r["size"], r["context"], -r["batch"])):
        shape = row["size"], row["context"], row["batch"]
        cells = [f"{shape[0]}, {shape[1]} x {shape[2]}", row["model"]]
        cells[1] += ", compiled" if row["compiled"] else ""
        if "failure" in row:
            cells += [f"did not run: {row['failure'][:60]}", "", ""]
        else:
            speed, beside = row["tokens_per_second"], shapes.get(shape)
            share = f"{100 * speed / beside:.0f} %" if beside else ""
            cells += [f"{speed / 1e3:.1f} k", share, _gigabytes(row["memory"])]
        lines.append("|".join(cells))
    return table(lines)


def _alone(rows: list[dict[str, Any]]) -> str:
    lines = ["units, dtype, B, T|rnnc, heads of 64, ms|nn.LSTM, one head, ms|times"]
    by_model = {(r["model"], r["width"], r["dtype"]): r for r in rows}
    for (model, width, dtype), row in by_model.items():
        peer = by_model.get(("nn-lstm", width, dtype))
        if model == "lstm" and peer:
            sizes = f"{width}, {dtype}, {row['batch']}, {row['steps']}"
            times = f"{row['ms']:.3g}|{peer['ms']:.3g}|{peer['ms'] / row['ms']:.1f}"
            lines.append(f"{sizes}|{times}")
    return table(lines)


def _pictures(path: Path) -> str:
    """Those whose names begin as the file's does."""
    pictures = sorted(path.parent.glob(f"{path.stem}*.png"))
    return "\n\n".join(f"![{p.stem}](../benchmarks/results/{p.name})" for p in pictures)


def _corpus(corpus: dict[str, Any] | None) -> str:
    if corpus is None:
        return "Perplexities are not measured yet: `python examples/language_model.py compare`."
    train, held_out = corpus["train"], corpus["validation"]
    return (
        f"Text {corpus['digest'][:12]}: {train['bytes'] / 1e6:.0f} MB of"
        f" {len(train['packages'])} packages to train, {held_out['bytes'] / 1e6:.1f} MB of"
        f" {len(held_out['packages'])} others to validate."
    )


def _gigabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e9:.1f}"


@of_newest("ranks-*.json", "torchrun --nproc-per-node 2 benchmarks/ranks.py --out ranks.json")
def several_gpus(found: dict[str, Any]) -> str:
    """A table for each context."""
    alone = [row for row in found["rows"] if row["style"] == "one"]
    shapes = sorted({(row["context"], row["batch"]) for row in alone})
    parts = [
        f"{batch} rows of {context} steps:\n\n{table(lines_of(found, context))}"
        for context, batch in shapes
    ]
    return "\n\n".join([*parts, f"The plan has as many rows per GPU. {source(found)}"])
