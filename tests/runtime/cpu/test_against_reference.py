"""The compiled CPU kernels against the reference: every cell, output and gradient."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

import pytest
import rnnc
import torch
from torch import Tensor

SHAPES = [(3, 5, 2, 7), (1, 1, 1, 1), (2, 63, 3, 5), (17, 3, 1, 40), (9, 4, 1, 33)]
CELLS = rnnc.cells.names()
slow = pytest.mark.slow
# Every eighth cell by the flags that ship. The quick ones take a fifth of the time; what depends on
# flags are loops that all cells share.
COMPILED = [
    pytest.param(name, flags, marks=slow if turn and flags == "shipped" else ())
    for turn, name in ((i % 8, name) for i, name in enumerate(CELLS))
    for flags in (("quick", "shipped") if turn else ("shipped",))
]
every_cell = pytest.mark.parametrize(("name", "compiled"), COMPILED, indirect=["compiled"])
# The slope of a spike is no derivative. `rnnc check` takes differences around it.
every_smooth_cell = pytest.mark.parametrize(
    ("name", "compiled"),
    [case for case in COMPILED if "heaviside" not in str(rnnc.cells.get(case.values[0]))],
    indirect=["compiled"],
)


def gradients(outputs: dict[str, Tensor], inputs: dict[str, Tensor], seeds: dict[str, Tensor]):
    total = sum((outputs[name] * seeds[name]).sum() for name in outputs)
    found = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
    return {
        name: torch.zeros_like(inputs[name]) if g is None else g
        for name, g in zip(inputs, found, strict=True)
    }


def relative_error(got: Tensor, wanted: Tensor) -> float:
    if not wanted.numel():
        return 0.0
    assert got.shape == wanted.shape
    scale = max(wanted.double().norm().item(), 1e-30)
    return (got.double() - wanted.double()).norm().item() / scale


@every_cell
def test_every_output_and_gradient_equals_the_reference(name, inputs_for, poisoned, compiled):
    cell = rnnc.cells.get(name)
    for shape in SHAPES:
        inputs = inputs_for(cell, *shape)
        wanted, got = inputs.scan(cell, "reference"), inputs.scan(cell, "cpu")
        seeds = {k: torch.randn_like(v) for k, v in wanted.items()}
        wanted_d = gradients(wanted, inputs.named(), seeds)
        got_d = gradients(got, inputs.named(), seeds)
        for key in wanted:
            assert relative_error(got[key], wanted[key]) < 1e-12, (shape, key)
        for key in wanted_d:
            assert relative_error(got_d[key], wanted_d[key]) < 1e-11, (shape, "gradient of", key)


@every_smooth_cell
def test_gradcheck_through_the_kernels(name, inputs_for, compiled):
    cell = rnnc.cells.get(name)
    inputs = inputs_for(cell, 2, 3, 1, 3)
    flat = inputs.named()

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = iter(tensors)
        out = inputs.map(lambda _: next(given)).scan(cell, "cpu")
        # sLSTM's stabiliser passes no gradient: that of its output is exact, since the output does
        # not depend on it; those of the scaled states are not meant to be.
        scaled = "slstm" in name
        return tuple(v for k, v in out.items() if not scaled or k.startswith(("h ", "y ")))

    # `map` visits tensors in the order of the fields, as `named` lists them.
    ordered = []
    inputs.map(lambda t: ordered.append(t) or t)
    assert [id(t) for t in ordered] == [id(t) for t in flat.values()]
    assert torch.autograd.gradcheck(run, ordered, fast_mode=True)


@pytest.mark.parametrize(
    "name",
    [
        "lstm",
        "slstm",
        *(pytest.param(n, marks=slow) for n in ("unicornn", "gru", "cornn", "fastgrnn")),
    ],
)
def test_float32_is_as_exact_as_torch_in_float32(name, inputs_for, poisoned):
    cell = rnnc.cells.get(name)
    ours: defaultdict[str, list[float]] = defaultdict(list)
    torchs: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(4):  # the error of one draw says little
        single = inputs_for(cell, 5, 40, 2, 24, torch.float32)
        exact = single.map(lambda t: t.detach().double().requires_grad_())
        truth, got = exact.scan(cell, "reference"), single.scan(cell, "cpu")
        torch_own = single.scan(cell, "reference")
        singles = {k: torch.randn_like(v) for k, v in got.items()}
        seeds = {k: v.double() for k, v in singles.items()}
        truth_d = gradients(truth, exact.named(), seeds)
        got_d = gradients(got, single.named(), singles)
        own_d = gradients(torch_own, single.named(), singles)
        for kind, a, b, c in [("", truth, got, torch_own), ("d ", truth_d, got_d, own_d)]:
            for name, value in a.items():
                ours[kind + name].append(relative_error(b[name], value))
                torchs[kind + name].append(relative_error(c[name], value))
    floor = 1e-7  # one rounding of float32
    for key in ours:
        assert mean(ours[key]) <= 1.5 * max(mean(torchs[key]), floor), key


def test_any_strides_of_wx_and_weights(inputs_for):
    cell = rnnc.cells.gru
    inputs = inputs_for(cell, 4, 6, 2, 9)
    wanted = inputs.scan(cell, "cpu")
    seeds = {k: torch.randn_like(v) for k, v in wanted.items()}
    wanted_d = gradients(wanted, inputs.named(), seeds)
    for axes in [(4, 3, 2, 1, 0), (1, 0, 2, 4, 3), (3, 1, 0, 4, 2)]:

        def scattered(t: Tensor, axes: tuple[int, ...] = axes) -> Tensor:
            order = axes if t.ndim == 5 else tuple(reversed(range(t.ndim)))
            back = sorted(range(t.ndim), key=order.__getitem__)
            # Every second element of a larger tensor, with the axes in another order.
            wide = torch.stack([t.detach(), torch.full_like(t, torch.nan)], -1).flatten(-2)
            moved = wide.permute(order).contiguous().permute(back)[..., ::2]
            return moved.requires_grad_()

        other = inputs.map(scattered)
        assert not other.wx.is_contiguous()
        got = other.scan(cell, "cpu")
        got_d = gradients(got, other.named(), seeds)
        for key in wanted:
            assert torch.equal(got[key], wanted[key]), (axes, key)
        for key in wanted_d:
            torch.testing.assert_close(got_d[key], wanted_d[key], rtol=1e-12, atol=1e-12)


def test_same_input_same_bits_for_any_number_of_threads(inputs_for):
    cell = rnnc.cells.slstm
    inputs = inputs_for(cell, 13, 20, 3, 20, torch.float32)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 2, 3):
            torch.set_num_threads(count)
            out = inputs.scan(cell, "cpu")
            results.append((out, gradients(out, inputs.named(), out)))
    finally:
        torch.set_num_threads(threads)
    for out, d in results[1:]:
        assert all(torch.equal(out[k], results[0][0][k]) for k in out)
        # Sums over the batch are split by tiles, whose number may depend on the threads.
        assert all(torch.allclose(d[k], results[0][1][k], rtol=1e-4, atol=1e-5) for k in d)
    again, before = results[2][1], results[1][1]
    assert all(torch.equal(again[k], before[k]) for k in again)


def test_nan_and_infinity_come_out_where_the_reference_has_them(inputs_for):
    for name in ("lstm", "gru", "elman", "ligru"):
        cell = rnnc.cells.get(name)
        inputs = inputs_for(cell, 4, 6, 1, 8, torch.float32, requires_grad=False)
        inputs.wx[0, 2, 0, 3] = torch.nan
        inputs.wx[1, 1, 0, 0] = torch.inf
        inputs.wx[2, 3, 0, 5] = -torch.inf
        wanted, got = inputs.scan(cell, "reference"), inputs.scan(cell, "cpu")
        for key in wanted:
            assert torch.equal(got[key].isnan(), wanted[key].isnan()), (name, key)
            assert torch.allclose(got[key], wanted[key], rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("shape", [(0, 4, 2, 3), (3, 0, 2, 3), (0, 0, 1, 1)])
def test_no_steps_and_no_rows(shape, inputs_for):
    for name in ("lstm", "indrnn"):
        cell = rnnc.cells.get(name)
        inputs = inputs_for(cell, *shape)
        for backend in ("cpu", "reference"):
            out = inputs.scan(cell, backend)
            B, T, N, D = shape
            assert out["h over time"].shape == (B, T, N, D)
            assert out["h last"].shape == (B, N, D)
            if T == 0:
                assert torch.equal(out["h last"], inputs.states[0])
            d = gradients(out, inputs.named(), {k: torch.ones_like(v) for k, v in out.items()})
            weight = d["R" if name == "lstm" else "R_diag"]
            assert torch.equal(weight, torch.zeros_like(weight))
            if T == 0:
                assert torch.equal(d["states[0]"], torch.ones_like(d["states[0]"]))


def test_only_the_last_state_or_only_one_output_carries_a_gradient(inputs_for):
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, 3, 7, 2, 5)
    for key in ("h last", "c last", "h over time", "c over time"):
        wanted = torch.autograd.grad(inputs.scan(cell, "reference")[key].square().sum(), inputs.wx)[
            0
        ]
        got = torch.autograd.grad(inputs.scan(cell, "cpu")[key].square().sum(), inputs.wx)[0]
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-13)


def test_inference_keeps_nothing(inputs_for, scan_call):
    cell = rnnc.cells.lstm
    inputs = inputs_for(cell, 3, 7, 2, 5)
    with torch.no_grad():
        assert len(torch.ops.rnnc.call(*scan_call(cell, inputs, keep=False))) == 4
    assert torch.ops.rnnc.call(*scan_call(cell, inputs))[-1].shape == (7, 3, 2, 4, 5)
