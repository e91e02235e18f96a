"""The kinds of contenders that `rnnc bench` knows."""

from __future__ import annotations

from typing import Literal, get_args

from ..rows import BenchError

Kind = Literal[
    "scan",
    "module",
    "nn",
    "auto",
    "flashrnn",
    "flashrnn-alternating",
    "flashrnn-packed",
    "torchrl",
    "haste",
    "attention",
    "fla",
    "fla-gla",
    "accelerated-scan",
    "speechbrain",
    "resets",
    "zoneout",
    "loop",
    "torch-loop",
    "compile",
    "compile-step",
    "compile-graph",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_KINDS: tuple[Kind, ...] = ("scan", "module", "nn", "flashrnn")


def kinds_named(words: str) -> list[Kind]:
    """The kinds of contenders in a list on the command line.

    Raises:
        BenchError: there is no such kind.
    """
    found: list[Kind] = []
    for word in (w.strip() for w in words.split(",")):
        match = next((k for k in KINDS if k == word), None)
        if match is None:
            raise BenchError(
                f"contender {word!r}", f"some of {', '.join(KINDS)}", "--contenders scan,nn"
            )
        found.append(match)
    return found
