"""The tables of the language models: what they learn, and how fast, on one GPU and on several."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from figures import of_newest, source, table
from rnnc.bench.table import markdown

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from language_model.tables import recurrences_table, runs_table, speed_table
from ranks_plan import lines_of

# One holds the speeds too. Others are of the same models on another text.
_FILES = "language-model-*.json"
_COMPARISONS = {
    "tokens": "At equal tokens (a model that is too slow ends where it is)",
    "time": "At equal wall-clock",
}


@of_newest(_FILES, "python examples/language_model.py compare", lambda found: bool(found["speed"]))
def language_model(found: dict[str, Any]) -> str:
    """Perplexities of both comparisons, tokens per second, and the recurrences by themselves."""
    parts, speed = _comparisons(found), found["speed"]
    parts += ["Tokens per second of training:", markdown(speed_table(speed["rows"]))]
    alone = markdown(recurrences_table(speed["recurrences"]))
    parts += ["An LSTM layer by itself, forward and backward:", alone]
    parts += [_pictures(found["path"]), _corpus(found["corpus"]), source(found)]
    for path in sorted(found["path"].parent.glob(_FILES)):
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
            parts += [f"{title}:", markdown(runs_table(runs))]
    return parts


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
