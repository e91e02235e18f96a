"""Draws the sizes of a module and of its calls."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ..draw.case import HALF


class Sizes(NamedTuple):
    """The sizes of a case.

    Attributes:
        layers: of the module.
        heads: of the module.
        dim: units per head.
        input_size: features of x.
        batches: what B may be in a call.
        steps: what T may be in a call.
        many_steps: whether the sizes are such that layers may run at the same time on a GPU.
    """

    layers: int
    heads: int
    dim: int
    input_size: int
    batches: tuple[int, ...]
    steps: tuple[int, ...]
    many_steps: bool = False


# Heads and dims of modules whose layers may run at the same time.
_FILLING = ((12, 64), (8, 64), (16, 64), (3, 256), (1, 512))
# Of all units of all steps of all layers: the reference keeps some 150 bytes of each.
_MOST = {"cpu": 60_000, "cuda": 30_000_000}
# Of all steps of all layers, which the reference runs one by one: usually, and where they are many.
_MOST_STEPS = {"cpu": 130, "cuda": 150}
_MANY_STEPS = 6144


def draw_sizes(run: Random, random: Random, device: str, dtype: str) -> Sizes:
    """Draw the sizes of a case.

    Args:
        run: of the run, for what all its cases share.
        random: of the case.
        device: where the kernels run.
        dtype: of the module.
    """
    if device == "cuda":
        dims = [run.choice([5, 16, 33]), run.choice([24, 48, 64]), run.choice([128, 200, 256])]
        dims += [run.choice([512, 768, 1024])]
        if dtype in HALF and random.random() < 0.35:
            return _filling(random)
    else:
        dims = [1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 64]
    while True:
        layers = random.choices(range(1, 13), [30, 25, 15, 8, 5, 5, *[2] * 6])[0]
        heads = random.choices([1, 2, 3, 4, 12], [5, 3, 2, 1, 1])[0]
        # Batch and steps are often equal, so that swapped axes have a shape that fits.
        pool = random.sample([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33], 3)
        batches, steps = tuple(pool[:2]), tuple(random.sample(pool, 2))
        dim, width = random.choice(dims), max(batches)
        found = Sizes(layers, heads, dim, random.choice([1, 3, 8, 17]), batches, steps)
        units = layers * heads * dim * width * max(steps)
        fits = heads * dim <= 2048 and units <= _MOST[device]
        if fits and layers * max(steps) <= _MOST_STEPS[device]:
            return found


def _filling(random: Random) -> Sizes:
    """Draw sizes that make wavefronts: several layers that fill the chip, and many steps."""
    heads, dim = random.choice(_FILLING)
    while True:
        layers = random.choices([2, 3, 4, 5, 6, 8, 12], [3, 5, 5, 3, 3, 2, 1])[0]
        batch, steps = random.choice([2, 16, 64]), random.choice([512, 512, 768, 1024])
        other = random.choice([1, 2, 16]), random.choice([1, 7, 512, 512])
        units = layers * heads * dim * batch * steps
        if units <= _MOST["cuda"] and layers * steps <= _MANY_STEPS:
            features = random.choice([heads * dim, 32])
            batches, lengths = (batch, other[0]), (steps, other[1])
            return Sizes(layers, heads, dim, features, batches, lengths, many_steps=True)
