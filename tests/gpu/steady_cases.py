"""Cases that must end: each pair of values of two properties comes at least once.

They are of wavefronts, walks and scans, and of cells with stages, whose blocks wait for each other
in each step: of one layer, of layers at the same time, and of single steps, whose launches become
graphs.
"""

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
    "kind": ("lstm", "gru", "input", "dropout", "walk", "scan"),
    "order": ("auto", "wavefront"),
    "call": ("first", "after another shape"),
    "fault": ("none", "pauses", "half the chip", "32 blocks", "busy threads"),
}
STAGES: dict[str, tuple[Any, ...]] = {
    "cell": ("gru_reset_first", "joint_norm_lstm", "lem", "rhn", "block_gru"),
    "variant": ("cluster", "grid", "auto"),
    "heads": ("6x128", "3x256", "1x512"),
    "batch": (2, 16, 64),
    "layers": (1, 3),
    "backward": (False, True),
    "rows": ("whole", "lengths and resets"),
    "call": ("first", "after another shape"),
    "fault": ("none", "half the chip", "32 blocks", "busy threads"),
}
# Layers that leave room on the chip, and layers that fill it.
WAVES: dict[str, tuple[Any, ...]] = {
    "cell": ("gru_reset_first", "joint_norm_lstm", "lem", "block_gru"),
    "layers": (2, 3, 4, 6),
    "heads": ("12x64", "8x64", "16x64", "3x256"),
    "batch": (2, 16, 64),
    "backward": (False, True),
    "order": ("auto", "wavefront"),
    "rows": ("whole", "lengths and resets"),
    "call": ("first", "after another shape"),
    "fault": PROPERTIES["fault"],
}
# `way`: calls that carry the states, calls that begin anew, or a stepper's.
STEPS: dict[str, tuple[Any, ...]] = {
    "cell": STAGES["cell"],
    "layers": (1, 2),
    "heads": ("12x64", "3x256", "1x768"),
    "batch": (1, 16, 128),
    "way": ("steps", "first steps", "stepper"),
    "fault": PROPERTIES["fault"],
}


def cases(count: int, properties: dict[str, tuple[Any, ...]] = PROPERTIES) -> list[dict[str, Any]]:
    """Cases in an order in which the first ones have the most new pairs; the same each time."""
    draw = random.Random(0)
    wanted = {
        (one, a, other, b)
        for one, other in combinations(properties, 2)
        for a in properties[one]
        for b in properties[other]
    }
    found = pairwise.covering(
        count, wanted, lambda: {name: draw.choice(values) for name, values in properties.items()}
    )
    missing = wanted.difference(*map(pairwise.pairs, found))
    assert not missing, f"{len(missing)} pairs are in no case"
    return found


def text(case: dict[str, Any]) -> str:
    """A case, for the name of a test."""
    names = "kind", "order", "cell", "variant", "rows", "call", "way", "fault"
    rest = [case[name] for name in names if name in case]
    if "backward" in case:
        rest.insert(0, "f+b" if case["backward"] else "f")
    return f"{case['layers']}x{case['heads']}-B{case['batch']}-{'-'.join(rest)}"
