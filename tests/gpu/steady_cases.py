"""Cases of modules that must end: each pair of values of two properties comes at least once."""

from __future__ import annotations

import importlib.util
import random
from itertools import combinations
from pathlib import Path
from typing import Any

_path = Path(__file__).parents[1] / "pairwise.py"
_spec = importlib.util.spec_from_file_location("pairwise", _path)
pairwise = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pairwise)

PROPERTIES: dict[str, tuple[Any, ...]] = {
    "layers": (2, 3, 4, 5, 6, 8, 12),
    "heads": ("12x64", "8x64", "16x64", "3x256", "1x512"),
    "batch": (2, 16, 64),
    "backward": (False, True),
    "kind": ("lstm", "gru", "input", "dropout", "walk", "scan", "stages"),
    "order": ("auto", "wavefront"),
    "call": ("first", "after another shape"),
    "fault": ("none", "pauses", "half the chip", "32 blocks", "busy threads"),
}


def cases(count: int) -> list[dict[str, Any]]:
    """Cases in an order in which the first ones have the most new pairs; the same each time."""
    draw = random.Random(0)
    wanted = {
        (one, a, other, b)
        for one, other in combinations(PROPERTIES, 2)
        for a in PROPERTIES[one]
        for b in PROPERTIES[other]
    }
    found = pairwise.covering(
        count, wanted, lambda: {name: draw.choice(values) for name, values in PROPERTIES.items()}
    )
    missing = wanted.difference(*map(pairwise.pairs, found))
    assert not missing, f"{len(missing)} pairs are in no case"
    return found


def text(case: dict[str, Any]) -> str:
    """A case, for the name of a test."""
    backward = "f+b" if case["backward"] else "f"
    rest = (case[name] for name in ("kind", "order", "call", "fault"))
    return f"{case['layers']}x{case['heads']}-B{case['batch']}-{backward}-{'-'.join(rest)}"
