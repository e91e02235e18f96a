"""Second derivatives are refused, never left out of a sum."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import rnnc
import torch
from torch.utils.flop_counter import FlopCounterMode


@pytest.mark.parametrize("mode", [nullcontext, lambda: FlopCounterMode(display=False)])
@pytest.mark.parametrize("function", ["scan", "scan_packed"])
def test_a_penalty_on_the_gradient_of_wx_alone(function, mode):
    """No saved tensor needs a gradient here: wx is not read again, and R is frozen."""
    x, R = torch.randn(5, 1, 4, 4, requires_grad=True), torch.randn(4, 1, 4, 4)
    more = (
        {"cu_seqlens": torch.tensor([0, 2, 5]), "max_seqlen": 3}
        if function == "scan_packed"
        else {}
    )
    wx = (x if more else x[None]).exp()
    with mode():
        (h, _), _ = getattr(rnnc, function)(rnnc.cells.lstm, wx, R, **more)
        (d,) = torch.autograd.grad(h.square().sum(), x, create_graph=True)
        loss = h.sum() + d.square().sum()
        with pytest.raises(rnnc.SecondOrderError):
            loss.backward()


def test_the_first_of_two_derivatives_is_that_of_a_graph_without():
    """Results that a loss leaves out have zero gradients in place of none."""
    x, R = torch.randn(2, 5, 1, 4, 4, requires_grad=True), torch.randn(4, 1, 4, 4)
    found = []
    for create_graph in (False, True):
        (h, _), _ = rnnc.scan(rnnc.cells.lstm, x, R)
        found += torch.autograd.grad(h.square().sum(), x, create_graph=create_graph)
    assert torch.equal(*found)
