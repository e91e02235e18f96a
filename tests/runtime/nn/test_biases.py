"""The two biases of torch's modules, added for kernels by one operator, and not for a backward."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.call.forms import TORCH, TORCH_GRU
from torch.utils._python_dispatch import TorchDispatchMode


class Noted(TorchDispatchMode):
    """The operators that run in its context."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(("name", "form"), [("LSTM", TORCH), ("GRU", TORCH_GRU)])
def test_biases_are_added_at_once(name, form, layers):
    module = getattr(rnnc.nn, name)(4, 5, layers, bidirectional=True).requires_grad_(False)
    weights, parts = list(module.parameters()), 2 * layers
    with Noted() as by_kernels:
        found = form.for_kernels(weights, parts, False, True)
    with Noted() as followed:
        wanted = form.weights(weights, parts)
    with Noted() as unread:
        without = form.for_kernels(weights, parts, False, False)
    for got, want, other in zip(found, wanted, without, strict=True):
        for one, two in zip(got.flat(), want.flat(), strict=True):
            assert (one is None and two is None) or torch.equal(one, two)
        assert other.b.shape[1:] == want.b.shape[1:]
        assert torch.equal(other.R, want.R)
    assert by_kernels.names.count("_foreach_add") == 1
    assert "add" not in by_kernels.names
    assert followed.names.count("add") == parts
    assert not {"add", "_foreach_add", "cat"} & set(unread.names)


def test_weights_without_biases():
    module = rnnc.nn.GRU(4, 5, bias=False)
    weights = [*module.parameters(), None, None]
    for biases in (True, False):
        (found,) = TORCH_GRU.for_kernels(weights, 1, False, biases)
        assert found.b is None
