"""Lengths and resets on a GPU against torch's loop in float64, with NaN in all padding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.target import CudaTarget

NAN = float("nan")
DTYPES = ("float32", "bfloat16", "float16", "float64")
# What a call has, and the form of the values after a reset.
WITH = {
    "lengths": (True, False, "init"),
    "resets": (False, True, "rows"),
    "both": (True, True, "shared"),
    "stored": (True, True, "stored"),
}


@pytest.fixture
def sizes(variant):
    """B, T, N and D: several tiles of rows, and more units where several blocks share them."""
    return {"cluster": (11, 37, 2, 144), "grid": (17, 37, 1, 264)}.get(variant, (11, 37, 3, 40))


@pytest.fixture
def both_sizes(variant, sizes):
    """Those of one direction of a layer; float32 has no cluster plan of 144 units."""
    return (11, 37, 2, 176) if variant == "cluster" else sizes


class Case:
    """A call whose padding holds NaN, with the gradients of its results."""

    def __init__(self, cell, inputs, seeds, what, reverse):
        self.cell, self.reverse = cell, reverse
        has_lengths, has_resets, form = WITH[what]
        batch, steps, heads, dim, _ = inputs.wx.shape
        on = {"device": inputs.wx.device}
        self.lengths = self.reset = self.values = None
        pad = torch.zeros(batch, steps, dtype=torch.bool, **on)
        if has_lengths:
            # Of no steps, of one, in tiles of their own; none has all of them.
            drawn = torch.randint(0, steps, (batch,), **on)
            drawn[:3] = torch.tensor([0, 1, steps - 1][:batch], **on)
            drawn[8:] = drawn[8:] // 3
            self.lengths = drawn
            pad = torch.arange(steps, **on) >= drawn[:, None]
        if has_resets:
            self.reset = torch.rand(batch, steps, **on) < 0.3
            self.reset[batch // 2] = True
            self.reset[-1] = False
        if has_resets and form != "init":
            shape = {"shared": (), "rows": (batch,), "stored": (batch, steps)}[form]
            like = {"dtype": inputs.wx.dtype, **on}
            values = [torch.rand(*shape, heads, dim, **like) + 0.5 for _ in cell.states]
            if form == "stored":
                read = self.reset & ~pad
                values = [v.masked_fill(~read[:, :, None, None], NAN) for v in values]
            self.values = [v.requires_grad_(form != "stored") for v in values]
        wx = inputs.wx.detach().masked_fill(pad[:, :, None, None, None], NAN)
        self.inputs = replace(inputs, wx=wx.requires_grad_())
        over_time = pad[:, :, None, None]
        self.seeds = {
            name: seed.masked_fill(over_time, NAN) if seed.ndim == 4 else seed
            for name, seed in seeds.items()
        }

    def run(self, backend, double=False, **choice):
        """All results and gradients by name."""

        def given(tensor):
            tensor = tensor.detach()
            return tensor.double() if double else tensor

        i = self.inputs.map(lambda t: given(t).requires_grad_())
        values = self.values
        if values is not None:
            values = [given(v).requires_grad_(v.requires_grad) for v in values]
        options = {"lengths": self.lengths, "reset": self.reset, "reset_to": values}
        over_time, last = rnnc.scan(
            self.cell, i.wx, i.R, i.b, i.states, R_diag=i.R_diag, params=i.params,
            backend=backend, reverse=self.reverse, **options, **choice,
        )  # fmt: skip
        found = {}
        for state, sequence, final in zip(self.cell.states, over_time, last, strict=True):
            found |= {f"{state.name} over time": sequence, f"{state.name} last": final}
        named = i.named()
        for n, value in enumerate(values or ()):
            if value.requires_grad:
                named[f"reset_to[{n}]"] = value
        # A state may hang on nothing that has a gradient.
        seeded = {name: value for name, value in found.items() if value.requires_grad}
        gradients = torch.autograd.grad(
            list(seeded.values()),
            list(named.values()),
            [given(self.seeds[name]) for name in seeded],
            materialize_grads=True,
            allow_unused=True,
        )
        found |= {f"gradient of {n}": g for n, g in zip(named, gradients, strict=True)}
        return {name: value.detach() for name, value in found.items()}

    def check(self, errors_are_small, **choice):
        """The kernels' errors are at most twice those of torch's loop in the same dtype."""
        got = self.run("cuda", **choice)
        for name, value in got.items():
            assert not value.isnan().any(), f"{name}: NaN"
        errors_are_small(got, self.run("reference"), self.run("reference", double=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_of_plan(
    dtype, reverse, variant, sizes, draw, seeds_for, errors_are_small, poisoned
):
    if dtype == "float64" and variant != "alternating":
        pytest.skip("alternating plans alone compute in float64")
    for number, what in enumerate(WITH):
        inputs = draw(rnnc.cells.lstm, sizes, getattr(torch, dtype), variant)
        case = Case(rnnc.cells.lstm, inputs, seeds_for(rnnc.cells.lstm, inputs), what, reverse)
        save = ("gates", "states")[number % 2]
        case.check(errors_are_small, variant=variant, save=save, precision="ieee")


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_directions_in_one_launch(
    dtype, variant, both_sizes, two_directions, errors_are_small, monkeypatch, poisoned
):
    """A module with the values after a reset in all forms; padding holds NaN."""
    if dtype == "float64" and variant != "alternating":
        pytest.skip("alternating plans alone compute in float64")
    monkeypatch.setattr(CudaTarget, "joins", lambda *_: True)
    batch, steps, heads, dim = both_sizes
    given = rnnc.cells.lstm, (batch, steps, 8, heads, dim)
    options = {"dtype": getattr(torch, dtype), "device": "cuda"}
    for number, form in enumerate((None, *two_directions.FORMS)):
        call = two_directions.RaggedCall(*given, form, **options)
        got = call.run("cuda", variant=variant, save=("gates", "states")[number % 2])
        for name, value in got.items():
            assert not value.isnan().any(), f"{form}, {name}: NaN"
        errors_are_small(got, call.run("reference"), call.run("reference", double=True))


@pytest.mark.parametrize("name", ["gru", "slstm", "unicornn"])
def test_both_directions_of_other_cells(
    name, variant, both_sizes, two_directions, errors_are_small, monkeypatch, poisoned
):
    cell = rnnc.cells.get(name)
    if variant == "grid" and not cell.dense_pairs:
        pytest.skip("a grid plan needs dense gates")
    monkeypatch.setattr(CudaTarget, "joins", lambda *_: True)
    batch, steps, heads, dim = both_sizes
    given = cell, (batch, steps, 8, heads, dim)
    for form, lengths in (("rows", True), ("shared", False)):
        call = two_directions.RaggedCall(*given, form, device="cuda", lengths=lengths)
        got = call.run("cuda", variant=variant)
        errors_are_small(got, call.run("reference"), call.run("reference", double=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["gru", "slstm", "unicornn", "fastgrnn"])
def test_cells_with_other_gradients(
    name, reverse, variant, sizes, draw, seeds_for, errors_are_small, poisoned, request
):
    """Gates without input, four states, params and diagonal weights, two sources."""
    cell = rnnc.cells.get(name)
    if variant == "grid" and not cell.dense_pairs:
        pytest.skip("a grid plan needs dense gates")
    if name == "fastgrnn" and reverse and variant in ("alternating", "cluster"):
        # On an H200, 2026-11-22: these gradients are off by up to 3.7 times what torch's float32
        # loop is, where 2.7 times is allowed. The cause is not known.
        request.applymarker(pytest.mark.xfail(reason="a larger error than torch's, not explained"))
    dtype = torch.float32
    for what in ("resets", "both"):
        inputs = draw(cell, sizes, dtype, variant)
        case = Case(cell, inputs, seeds_for(cell, inputs), what, reverse)
        case.check(errors_are_small, variant=variant, precision="ieee")


@pytest.mark.parametrize("reverse", [False, True])
def test_full_lengths_change_no_bit(
    reverse, variant, sizes, draw, seeds_for, results, same_bits, poisoned
):
    cell = rnnc.cells.lstm
    for dtype, save in ((torch.bfloat16, "gates"), (torch.float32, "states")):
        inputs = draw(cell, sizes, dtype, variant)
        seeds = seeds_for(cell, inputs)
        choice = {"variant": variant, "save": save, "reverse": reverse, "precision": "ieee"}
        lengths = torch.full((sizes[0],), sizes[1], device=inputs.wx.device)
        got = results(cell, inputs, seeds, lengths=lengths, **choice)
        same_bits(got, results(cell, inputs, seeds, **choice))


def test_a_graph_follows_the_lengths(variant, sizes, draw, results, same_bits):
    """Lengths and resets lie on the device: a captured call reads them when it is replayed."""
    cell = rnnc.cells.lstm
    inputs = draw(cell, sizes, torch.bfloat16, variant).map(lambda t: t.detach())
    batch, steps = sizes[:2]
    lengths = torch.full((batch,), steps, device="cuda")
    reset = torch.zeros(batch, steps, dtype=torch.bool, device="cuda")

    def call():
        return rnnc.scan(
            cell, inputs.wx, inputs.R, inputs.b, inputs.states,
            backend="cuda", variant=variant, lengths=lengths, reset=reset,
        )  # fmt: skip

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        over_time, last = call()
    lengths.random_(0, steps)
    reset.random_(0, 2)
    graph.replay()
    wanted = call()
    for got, value in zip((*over_time, *last), (*wanted[0], *wanted[1]), strict=True):
        assert torch.equal(got, value)
