"""`h = a h + b` with coefficients of the test's choice, and how far results may be from float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import rnnc
import torch
from rnnc import Gate, State, gate
from rnnc.codegen.cuda.scan import search
from rnnc.codegen.shape import DIRECTIONS
from torch import Tensor

from .walk_calls import scan_in_parts

# Of float32: none, all and the neighbours of 1, negative ones, growing ones, tiny ones.
EDGES = (0.0, -0.0, 1.0, -1.0, 1 + 1.2e-7, 1 - 1.2e-7, -0.7, 0.999, 1.03, -1.03, 1e-30, -1e-30)
FLOOR = 3  # eps of the dtype: what rounding alone may cost where the loop happens to be exact

# Of a coefficient and an offset for each step and unit, (B, T, 1, units, 2), and the gradient of
# the states: the states, and the gradient of wx.
Runs = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@rnnc.cell
def bare(
    h: State,
    *,
    a: Gate = gate(recurrent=False, bias=False),
    b: Gate = gate(recurrent=False, bias=False),
):
    """Nothing but a recurrence."""
    return a * h + b


def run(backend: str, variant: str = "auto") -> Runs:
    """What a backend gives."""

    def results(wx: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        wx = wx.detach().requires_grad_()
        (h,), _ = rnnc.scan(bare, wx, backend=backend, variant=variant)
        return h.detach(), torch.autograd.grad(h, wx, seed)[0]

    return results


def small_tiles(patch: pytest.MonkeyPatch, parts: int = 0, warps: int = 2) -> None:
    """Let tiles have a few steps, so that a short call has several of each channel.

    Of more than two warps, tiles load the maps of those before them ahead.
    """
    scan_in_parts(patch, parts)
    patch.setattr(search, "_WARPS", (warps, warps))
    for direction in DIRECTIONS:
        patch.setitem(search._WARPS_IN_ORDER, direction, (2,))
        patch.setitem(search._CHUNKS, direction, (4,))


def edges(steps: int, mixed: bool) -> Tensor:
    """Coefficients (1, T, 1, units) in float32: one per unit, or drawn ones."""
    units, found = len(EDGES), torch.tensor(EDGES)
    if mixed:
        return found[torch.randint(units, (1, steps, 1, units))]
    return found.expand(1, steps, 1, units)


def check_as_the_loop(a: Tensor, ours: Runs, loop: Runs, draws: int) -> None:
    """Compare states and gradients with float64: at most twice the errors of the loop, per unit.

    Args:
        a: the coefficients, of the dtype that is tested.
        ours: the results.
        loop: those of the loop in the dtype of its arguments.
        draws: of offsets; the norm is over all of them.
    """
    errors = {"ours": 0.0, "loop": 0.0, "size": 0.0}
    for _ in range(draws):
        wx, seed = torch.stack([a, torch.randn_like(a)], -1), torch.randn_like(a)
        exact = loop(wx.double(), seed.double())
        found = {"ours": ours(wx, seed), "loop": loop(wx, seed)}
        for name, results in found.items():
            pairs = zip(results, exact, strict=True)
            errors[name] += _squares([got.double() - wanted for got, wanted in pairs])
        errors["size"] += _squares(exact)
    got, own, size = (each.sqrt() for each in errors.values())
    bound = 2 * own + FLOOR * torch.finfo(a.dtype).eps * size
    assert (got <= bound).all(), f"times what is allowed, states, d_a, d_b: {got / bound}"


def _squares(results: object) -> Tensor:
    """The squares of (1, T, 1, units) and (1, T, 1, units, 2), summed over time: three rows."""
    h, d_wx = results
    return torch.stack([each.square().sum(1).flatten() for each in (h, *d_wx.unbind(-1))])
