"""Compares a module of `rnnc.nn` with torch's: results, and gradients by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


def flat(found: Any) -> list[Tensor]:
    """All tensors of a module's results."""
    if isinstance(found, PackedSequence):
        return [found.data]
    if isinstance(found, Tensor):
        return [found]
    return [tensor for each in found for tensor in flat(each)]


def named(module: torch.nn.Module, x: Any, hx: Any = None) -> dict[str, Tensor]:
    """The results of a call and all gradients, by name; each result has a weight of its own."""
    module.zero_grad()
    data = x.data if isinstance(x, PackedSequence) else x
    own = data.clone().requires_grad_()
    given = x._replace(data=own) if isinstance(x, PackedSequence) else own
    states = [] if hx is None else [state.clone().requires_grad_() for state in flat(hx)]
    again = None if hx is None else tuple(states) if isinstance(hx, tuple) else states[0]
    results = flat(module(given) if hx is None else module(given, again))
    made = torch.Generator().manual_seed(1)
    seeds = [torch.rand(r.shape, generator=made, dtype=torch.float64).to(r) for r in results]
    torch.autograd.backward(results, seeds)
    found = {f"result {place}": result for place, result in enumerate(results)}
    found["d x"] = own.grad
    found |= {f"d state {place}": state.grad for place, state in enumerate(states)}
    return found | {f"d {name}": p.grad for name, p in module.named_parameters()}


def assert_same(ours: torch.nn.Module, theirs: torch.nn.Module, x: Any, hx: Any = None) -> None:
    """Compare results and gradients; float64 to 1e-9."""
    wanted, got = named(theirs, x, hx), named(ours, x, hx)
    assert wanted.keys() == got.keys()
    for name, tensor in wanted.items():
        close = {"rtol": 1e-9, "atol": 1e-11} if tensor.dtype == torch.float64 else {}
        torch.testing.assert_close(got[name], tensor, msg=lambda m, n=name: f"{n}: {m}", **close)
