"""Draws a random module and its calls."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from ..draw.case import Settings
from .calls import draw_calls
from .case import ModuleCase
from .cells import LIBRARY, PROJECTABLE, WITH_INPUTS
from .sizes import Sizes, draw_sizes

# Kernels are shared by all cases of a run, so a run has few cells and head dims.
_CELLS_OF_A_RUN = 3
_DTYPES = {
    "cpu": {"float64": 40, "float32": 40, "bfloat16": 10, "float16": 10},
    "cuda": {"float64": 10, "float32": 30, "bfloat16": 48, "float16": 12},
}
# Of the cases, and of those on a GPU, which takes seconds to start.
_FRESH = {"cpu": 0.15, "cuda": 0.1}


def draw_module(seed: int, number: int, settings: Settings) -> ModuleCase:
    """Draw a module and its calls; the same seed and number give the same case.

    Args:
        seed: the seed of the run.
        number: the number of the case.
        settings: what may be drawn.
    """
    device = settings.device
    run = Random(f"rnnc modules {seed} {device}")
    cells = ["lstm", "gru", *run.sample(LIBRARY[2:], _CELLS_OF_A_RUN - 1)]
    cells += [run.choice(list(WITH_INPUTS))]
    random = Random(f"rnnc modules {seed} {number} {device}")
    weights = _DTYPES[device]
    dtype = random.choices(list(weights), list(weights.values()))[0]
    sizes = draw_sizes(run, random, device, dtype)
    cell = random.choice(["lstm", "gru"] if sizes.many_steps else cells)
    case = ModuleCase(
        cell,
        (),
        seed=random.randrange(2**31),
        layers=sizes.layers,
        heads=sizes.heads,
        dim=sizes.dim,
        input_size=sizes.input_size,
        bias=random.random() < 0.8,
        batch_first=random.random() < 0.5,
        variant="auto" if settings.variant == "any" else settings.variant,
        save="states" if random.random() < 0.25 else "gates",
        frozen=random.random() < 0.15,
        forms=tuple(random.choices(["rows", "full", "heads", "steps", "units"], k=2)),
        passed=Random(f"rnnc passed {seed} {number}").random() < 0.3,
        device=device,
        dtype=dtype,
        threads=random.choice([1, 1, 2]) if device == "cpu" else 1,
        fresh=random.random() < _FRESH[device],
        burst=random.random() < 0.4,
        flags="shipped" if settings.shipped and number % (4 * settings.shipped) == 0 else "quick",
    )
    case = _options(random, case, sizes)
    calls = draw_calls(random, case, sizes)
    if 0 < case.dropout < 1:
        calls = tuple(replace(call, training=False) for call in calls)
    return replace(case, calls=calls)


def _options(random: Random, case: ModuleCase, sizes: Sizes) -> ModuleCase:
    """Draw the order of a case's layers, its directions, a projection and dropout."""
    if sizes.many_steps:
        # Layers that may run at the same time have neither of these.
        order = random.choice(["auto", "auto", "wavefront", "sequential"])
        return replace(case, order=order, save="gates", variant="auto")
    if random.random() < 0.1:
        case = replace(case, order="sequential")
    if random.random() < 0.3:
        case = replace(case, both=True)
    if case.cell in PROJECTABLE and case.dim > 1 and random.random() < 0.3:
        case = replace(case, proj_size=random.randrange(1, case.dim))
    if case.layers > 1 and random.random() < 0.2:
        case = replace(case, dropout=random.choice([0.3, 1.0]))
    return case
