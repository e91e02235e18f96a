"""Draws a random case: a cell, and the sizes and options of one call of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from ...codegen.cuda.kinds import KINDS
from ..fuzz.tensors import draw_view, is_given, outputs, shapes
from .cell import draw_cell, with_draws, with_inputs, with_keywords
from .loops import with_loops
from .scans import without_matrices
from .stages import with_stages
from .tree import Case, CellDraw
from .write_cell import functions_used

_DTYPES = {
    "cpu": {"float64": 50, "float32": 30, "bfloat16": 10, "float16": 10},
    "cuda": {"float64": 15, "float32": 35, "bfloat16": 35, "float16": 15},
}
HALF = ("bfloat16", "float16")
_SCANS = 0.25  # the share of cells without matrices that are drawn as such
_AFFINE = 0.5  # of them, the share that a scan plan computes
_LOOPS = 0.35  # of the others, the share of cells with loops
_STAGES = 0.3  # the share of cells with stages


@dataclass(frozen=True)
class Settings:
    """Range of cases that may be drawn.

    Attributes:
        device: where the kernels run.
        variant: the kind of plan of all cases; "any" draws one per case.
        compiled: the share of calls through `torch.compile`, which takes long.
        shipped: on the CPU, one cell in this many is compiled with the flags that users get; 0 for
            none.
    """

    device: str = "cpu"
    variant: str = "any"
    compiled: float = 0.01
    shipped: int = 8


def draw_case(seed: int, number: int, settings: Settings) -> Case:
    """Draw a case; the same seed and number give the same case.

    Args:
        seed: the seed of the run.
        number: the number of the case.
        settings: what may be drawn.
    """
    random = Random(f"rnnc {seed} {number} {settings.device}")
    weights = _DTYPES[settings.device]
    dtype = random.choices(list(weights), list(weights.values()))[0]
    half = dtype in HALF
    apart = half or random.random() < 0.25
    through = random.choices(["scan", "module", "step"], [70, 22, 8])[0]
    if random.random() < settings.compiled:
        through = random.choices(["compiled", "inductor"], [4, 1])[0]
    cell = draw_cell(random, apart, half, through == "scan")
    cell = with_inputs(Random(f"rnnc inputs {seed} {number}"), cell)
    cell = with_draws(Random(f"rnnc draws {seed} {number}"), cell, through == "scan")
    loops, scans = Random(f"rnnc loops {seed} {number}"), Random(f"rnnc scans {seed} {number}")
    affine = False
    if scans.random() < _SCANS:
        affine = scans.random() < _AFFINE
        cell = without_matrices(scans, cell, apart, half, affine)
    elif loops.random() < _LOOPS:
        cell = with_loops(loops, cell, apart, half)
    stages = Random(f"rnnc stages {seed} {number}")
    staged = stages.random() < _STAGES
    if staged:
        cell = with_stages(stages, cell, apart, half)
    cell = with_keywords(Random(f"rnnc keywords {seed} {number}"), cell)
    variant = settings.variant
    if variant == "any":
        variant = _variant(random, cell, dtype, staged, affine)
    case = Case(
        cell,
        seed=random.randrange(2**31),
        device=settings.device,
        dtype=dtype,
        through=through,  # type: ignore[arg-type]
        layers=1 if through == "scan" else random.choice([1, 1, 2, 3]),
        input_size=random.choice([1, 3, 8, 17]),
        batch_first=random.random() < 0.5,
        bias=random.random() < 0.8,
        states=random.random() < 0.75,
        variant=variant if settings.device == "cuda" else "auto",
        save="states" if random.random() < 0.3 else "gates",
        threads=random.choice([1, 1, 2, 3]),
        json=random.random() < 0.1,
        flags="shipped" if settings.shipped and number % settings.shipped == 0 else "quick",
        **_sizes(random, half, settings.device, variant),
    )
    if half and "rms_norm" in functions_used(cell):
        # Of one unit it is a sign, whose gradient is the difference of two equal roundings.
        case = replace(case, dim=max(case.dim, 2))
    if through == "scan":
        case = replace(case, reverse=random.random() < 0.4)
    elif through != "step":  # both directions have no steps
        case = replace(case, both=random.random() < 0.4)
    if through != "step":
        case = _ragged(Random(f"rnnc rows {seed} {number}"), case)
    return _with_views(random, case)


def _ragged(random: Random, case: Case) -> Case:
    """The case with lengths, resets or both; the loop of such a case takes rows one by one."""
    most = 700 if case.variant == "scan" else 60
    if random.random() < 0.6 or not 0 < case.batch * case.steps <= most:
        return case
    kind = random.choice(["lengths", "resets", "both"])
    steps, rows = range(case.steps), range(case.batch)
    lengths: tuple[int, ...] = ()
    resets: tuple[tuple[int, ...], ...] = ()
    if kind != "resets":
        lengths = tuple(random.choice([0, 1, case.steps, *steps]) for _ in rows)
    if kind != "lengths":
        share = random.choice([0.1, 0.3, 0.8])
        resets = tuple(tuple(t for t in steps if random.random() < share) for _ in rows)
    reset_to = random.choice(["init", "shared", "rows", "stored"]) if resets else "init"
    return replace(case, lengths=lengths, resets=resets, reset_to=reset_to)


def _variant(random: Random, cell: CellDraw, dtype: str, staged: bool, affine: bool) -> str:
    """A kind of plan that is likely to exist for the cell."""
    weights = {"auto": 2, "alternating": 3}
    if dtype != "float64":
        weights |= {"block": 3, "cluster": 3}
        if cell.pairs(True):  # without one, blocks have nothing to exchange
            weights["grid"] = 3
    if not cell.pairs(True):
        # A scan is refused where the recurrence is not affine.
        weights |= {"walk": 6, "scan": 12 if affine else 1}
    if staged:
        weights = {v: w for v, w in weights.items() if v == "auto" or KINDS[v].takes_stages}
    return random.choices(list(weights), list(weights.values()))[0]


def _sizes(random: Random, half: bool, device: str, variant: str) -> dict[str, Any]:
    large = 5000 if device == "cpu" else 40000
    small = [1, 2, 3, 5, 7]
    long = [100, 300, 700] if variant == "scan" and device == "cuda" else []  # of several tiles
    while True:
        batch = random.choices([0, *small, 8, 13, 17, 33, 40], [1] + [5] * 5 + [2] * 5)[0]
        few = [1] + [6] * 5 + [0 if half else 1] * 3
        steps = random.choices([0, *small, 11, 17, 30, *long], few + [5] * len(long))[0]
        heads = random.choices([1, 2, 3, 4, 5], [5, 3, 2, 1, 1])[0]
        dims = [*small, 8, 16, 17, 31, 32, 33, 64, 67, 70]
        if device == "cuda":
            dims += [24, 40, 48, 96, 128, 130, 200]
            # Blocks can share a head of at least 9 units.
            dims = [d for d in dims if d > 8 or variant not in ("cluster", "grid")]
        dim = random.choice(dims)
        if batch * steps * heads * dim <= large:
            return {"batch": batch, "steps": steps, "heads": heads, "dim": dim}


def _with_views(random: Random, case: Case) -> Case:
    taken, given = shapes(case), outputs(case)
    views = []
    chance = random.choice([0, 0.15, 0.5])
    for name, shape in taken.items():
        movable = case.through == "scan" or is_given(name)
        if movable and random.random() < chance:
            views.append((name, draw_view(random, len(shape), case.through)))
    for name, shape in given.items():
        if random.random() < chance:
            views.append((f"d {name}", draw_view(random, len(shape), case.through)))
    without: list[str] = []
    silent: list[str] = []
    if random.random() < 0.4:
        share = random.choice([0.3, 0.7, 1.0])
        without = [name for name in taken if random.random() < share]
    if random.random() < 0.4:
        share = random.choice([0.3, 0.7])
        silent = [name for name in given if random.random() < share]
    return replace(case, views=tuple(views), without=tuple(without), silent=tuple(silent))
