"""Cases of wavefronts that must end: each pair of values of two properties comes at least once."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

PROPERTIES: dict[str, tuple[Any, ...]] = {
    "layers": (2, 3, 4, 5, 6, 8, 12),
    "heads": ("12x64", "8x64", "16x64", "3x256", "1x512"),
    "batch": (2, 16, 64),
    "backward": (False, True),
    "kind": ("lstm", "gru", "input", "dropout"),
    "order": ("auto", "wavefront"),
    "call": ("first", "after another shape"),
    "fault": ("none", "pauses", "half the chip", "32 blocks", "busy threads"),
}
TRIES = 40  # random cases, of which the one with the most new pairs is taken


def cases(count: int) -> list[dict[str, Any]]:
    """Cases in an order in which the first ones have the most new pairs; the same each time."""
    draw, names = random.Random(0), list(PROPERTIES)
    missing = {
        pair
        for one, other in combinations(names, 2)
        for pair in ((one, a, other, b) for a in PROPERTIES[one] for b in PROPERTIES[other])
    }
    found = []
    while len(found) < count:
        tried = [{n: draw.choice(PROPERTIES[n]) for n in names} for _ in range(TRIES)]
        best = max(tried, key=lambda case: len(missing & pairs(case)))
        missing -= pairs(best)
        found.append(best)
    assert not missing, f"{len(missing)} pairs are in no case"
    return found


def pairs(case: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The pairs of values of a case."""
    return {(one, case[one], other, case[other]) for one, other in combinations(PROPERTIES, 2)}


def text(case: dict[str, Any]) -> str:
    """A case, for the name of a test."""
    backward = "f+b" if case["backward"] else "f"
    rest = (case[name] for name in ("kind", "order", "call", "fault"))
    return f"{case['layers']}x{case['heads']}-B{case['batch']}-{backward}-{'-'.join(rest)}"
