"""The recorded cases: each pair of values that a call can have comes at least once."""

from __future__ import annotations

import importlib.util
import random
from functools import cache
from pathlib import Path
from typing import Any

_path = Path(__file__).parents[1] / "pairwise.py"
_spec = importlib.util.spec_from_file_location("pairwise", _path)
pairwise = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pairwise)

# Of rnnc.cells; "keep" is a cell with an `Input`, of calls.py.
CELLS = ("lstm", "gru", "elman", "slstm", "indrnn", "mingru", "keep")
STEPS = ("step", "step training", "stepper")
LONG = (2, 32, 4, 300)  # as wavefronts need
SCANS = ("scan", "scan training", "scan_packed")
PROPERTIES: dict[str, tuple[Any, ...]] = {
    "route": (
        *("inference", "training", "twice", "last states", "autocast", "compiled", "captured"),
        *("converted", *STEPS, *SCANS),
    ),
    "cell": CELLS,
    "dtype": ("float32", "float64", "bfloat16", "float16"),
    "rows": ("plain", "lengths", "reset", "reset to"),
    "save": ("gates", "states"),
    "directions": (1, 2),
    "layers": (1, 2, 4),
    "order": ("auto", "sequential", "wavefront"),
    # heads, units per head, batch, steps
    "sizes": ((2, 16, 3, 7), (4, 32, 16, 40), (1, 64, 5, 33), LONG, (1, 520, 2, 5)),
    "batch_first": (False, True),
    "states": (False, True),
    "proj_size": (0, 8),
    "dropout": (0.0, 0.25),
}
_DRAWN = 20_000  # random cases, whose pairs are those that calls can have

Case = dict[str, Any]


def cases(count: int, device: str) -> list[Case]:
    """Return cases, the same each time, of which the first ones have the most new pairs.

    Args:
        count: how many.
        device: "cpu" or "cuda".
    """
    draw = random.Random(0)
    return pairwise.covering(count, all_pairs(device), lambda: _drawn(draw, device))


@cache
def all_pairs(device: str) -> frozenset[tuple[Any, ...]]:
    """Return the pairs of values that calls on a device can have.

    Args:
        device: "cpu" or "cuda".
    """
    draw = random.Random(1)
    return frozenset().union(*(pairwise.pairs(_drawn(draw, device)) for _ in range(_DRAWN)))


def _drawn(draw: random.Random, device: str) -> Case:
    """Draw a case that the package does not refuse."""
    while True:
        case = {name: draw.choice(values) for name, values in PROPERTIES.items()}
        if _is_taken(case, device):
            return case


def _is_taken(case: Case, device: str) -> bool:
    """Return whether the package takes a case. What it refuses has tests of its own."""
    route, module = case["route"], case["route"] not in SCANS
    both, heads = case["directions"] == 2, case["sizes"][0]
    if device == "cpu" and (route == "captured" or case["sizes"] == LONG):
        return False
    if route in STEPS and (both or case["rows"] != "plain"):
        return False
    if route == "converted":
        as_torch = case["cell"] in ("lstm", "gru", "elman") and heads == 1
        own = case["save"], case["order"], case["proj_size"]
        return as_torch and own == ("gates", "auto", 0) and case["rows"] in ("plain", "lengths")
    if not module:  # the arguments of a module alone, at their defaults
        alone = (
            case["layers"],
            case["order"],
            case["batch_first"],
            case["proj_size"],
            case["dropout"],
        )
        packed = route == "scan_packed"
        return alone == (1, "auto", False, 0, 0.0) and not (packed and case["rows"] == "lengths")
    if case["proj_size"] and case["cell"] != "lstm":
        return False
    if case["dropout"] and case["layers"] == 1:
        return False
    if case["order"] != "wavefront":
        return True
    plain = (
        case["rows"] == "plain" and not both and not case["proj_size"] and case["cell"] != "keep"
    )
    long = case["sizes"] == LONG and route not in STEPS and route != "captured"
    return case["layers"] > 1 and plain and long


def text(case: Case) -> str:
    """Return a case in a line.

    Args:
        case: the case.
    """
    heads, dim, batch, steps = case["sizes"]
    words = [case["route"], case["cell"], f"{case['layers']} of {heads} x {dim}", f"B {batch}"]
    words += [f"T {steps}", case["dtype"]]
    words += [] if case["rows"] == "plain" else [case["rows"]]
    words += ["saves states"] if case["save"] == "states" else []
    words += ["both directions"] if case["directions"] == 2 else []
    words += [] if case["order"] == "auto" else [case["order"]]
    words += [name for name in ("batch_first", "states") if case[name]]
    words += [f"{name} {case[name]}" for name in ("proj_size", "dropout") if case[name]]
    return ", ".join(words)
