"""Unusual values: NaN and infinity, gradcheck, empty calls, any strides."""

from __future__ import annotations

import pytest
import rnnc
import torch
from torch import Tensor


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["lstm", "gru", "elman", "ligru"])
def test_nan_and_infinity_come_out_where_the_reference_has_them(name, variant, dim, dtype, draw):
    cell = rnnc.cells.get(name)
    inputs = draw(cell, (5, 6, 2, dim), getattr(torch, dtype), variant)
    with torch.no_grad():
        inputs.wx[0, 2, 0, 3] = torch.nan
        inputs.wx[1, 1, 0, 0] = torch.inf
        inputs.wx[2, 3, 1, 5] = -torch.inf
        inputs.states[0][3, 0, 7] = torch.nan
    wanted = forward_of(cell, inputs)
    got = forward_of(cell, inputs, backend="cuda", variant=variant)
    for key in wanted:
        assert torch.equal(got[key].isnan(), wanted[key].isnan()), key
        assert torch.equal(got[key].isinf(), wanted[key].isinf()), key
        assert got[key][4].isfinite().all(), f"{key}: a row that saw none of it"


def forward_of(cell, inputs, backend="reference", **choice):
    with torch.no_grad():
        over_time, last = rnnc.scan(
            cell,
            inputs.wx,
            inputs.R,
            inputs.b,
            inputs.states,
            R_diag=inputs.R_diag,
            params=inputs.params,
            backend=backend,
            **choice,
        )
    names = [s.name for s in cell.states]
    return {
        **{f"{n} over time": s for n, s in zip(names, over_time, strict=True)},
        **{f"{n} last": s for n, s in zip(names, last, strict=True)},
    }


# 40 steps are a whole graph of steps, and a rest.
@pytest.mark.parametrize("shape", [(2, 3, 1, 3), (1, 40, 2, 2)])
@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("name", ["lstm", "gru", "cornn", "unicornn", "fastgrnn", "indrnn"])
def test_gradcheck(name, save, shape, draw):
    cell = rnnc.cells.get(name)
    inputs = draw(cell, shape, torch.float64)
    flat = list(inputs.named().values())

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = iter(tensors)
        moved = inputs.map(lambda _: next(given))
        over_time, last = rnnc.scan(
            cell,
            moved.wx,
            moved.R,
            moved.b,
            moved.states,
            R_diag=moved.R_diag,
            params=moved.params,
            backend="cuda",
            variant="alternating",
            save=save,
        )
        return (*over_time, *last)

    assert torch.autograd.gradcheck(run, flat, fast_mode=True)


@pytest.mark.parametrize("shape", [(0, 4, 2, 40), (3, 0, 2, 40), (0, 0, 1, 40)])
@pytest.mark.parametrize("name", ["lstm", "indrnn"])
def test_no_steps_and_no_rows(name, shape, variant, draw, seeds_for, results):
    cell = rnnc.cells.get(name)
    inputs = draw(cell, shape, torch.float32, variant)
    seeds = {key: torch.ones_like(seed) for key, seed in seeds_for(cell, inputs).items()}
    got = results(cell, inputs, seeds, variant=variant)
    wanted = results(cell, inputs, seeds, "reference")
    for key, value in wanted.items():
        assert got[key].shape == value.shape, key
        assert torch.equal(got[key], value), key


def scattered(tensor: Tensor) -> Tensor:
    """Every second element of a larger tensor, with the axes the other way round."""
    wide = torch.stack([tensor.detach(), torch.full_like(tensor, torch.nan)], -1).flatten(-2)
    axes = tuple(reversed(range(tensor.ndim)))
    return wide.permute(axes).contiguous().permute(axes)[..., ::2].requires_grad_()


def misaligned(tensor: Tensor) -> Tensor:
    """Packed, but beginning one element after a boundary."""
    flat = tensor.new_empty(tensor.numel() + 1)
    flat[1:] = tensor.detach().flatten()
    return flat[1:].view(tensor.shape).requires_grad_()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("change", [scattered, misaligned])
@pytest.mark.parametrize("name", ["gru", "slstm", "fastgrnn"])
def test_any_strides(name, variant, dim, change, dtype, draw, seeds_for, results, same_bits):
    cell = rnnc.cells.get(name)
    inputs = draw(cell, (4, 6, 2, dim), getattr(torch, dtype), variant)
    seeds = seeds_for(cell, inputs)
    wanted = results(cell, inputs, seeds, variant=variant)
    other = inputs.map(change)
    assert not (other.wx.is_contiguous() and other.wx.data_ptr() % 16 == 0)
    moved_seeds = {key: change(seed).detach() for key, seed in seeds.items()}
    same_bits(results(cell, other, moved_seeds, variant=variant), wanted)


def test_one_gradient_for_all_elements(variant, draw, seeds_for, results, same_bits):
    """What `y.sum().backward()` sends: a single number with strides of zero."""
    cell = rnnc.cells.lstm
    inputs = draw(cell, (3, 7, 2, 40), torch.float32, variant)
    ones = {key: torch.ones_like(seed) for key, seed in seeds_for(cell, inputs).items()}
    single = {key: seed.new_ones(()).expand(seed.shape) for key, seed in ones.items()}
    wanted = results(cell, inputs, ones, variant=variant)
    same_bits(results(cell, inputs, single, variant=variant), wanted)


@pytest.mark.parametrize("key", ["h last", "c last", "h over time", "c over time"])
def test_one_output_alone_carries_a_gradient(key, variant, dim, draw, seeds_for, results):
    cell = rnnc.cells.lstm
    inputs = draw(cell, (3, 37, 2, dim), torch.float32, variant)
    seeds = {key: seeds_for(cell, inputs)[key]}
    wanted = results(cell, inputs, seeds, "reference")
    got = results(cell, inputs, seeds, variant=variant)
    for name in wanted:
        torch.testing.assert_close(got[name], wanted[name], rtol=1e-4, atol=1e-5, msg=name)


def test_inference_gives_the_same_bits_and_keeps_nothing(
    variant, dim, draw, results, same_bits, scan_call
):
    cell = rnnc.cells.slstm
    inputs = draw(cell, (3, 37, 2, dim), torch.bfloat16, variant)
    trained = results(cell, inputs, {"h last": torch.zeros_like(inputs.states[0])}, variant=variant)
    inferred = forward_of(cell, inputs, "cuda", variant=variant)
    same_bits(inferred, {key: trained[key] for key in inferred})
    with torch.no_grad():
        out = torch.ops.rnnc.call(*scan_call(cell, inputs, keep=False, variant=variant))
    assert len(out) == 2 * len(cell.states)


@rnnc.cell
def straight_through(
    z: rnnc.Gate, v: rnnc.Gate, w: rnnc.Param = rnnc.param(0.7), h: rnnc.State = rnnc.state()
):
    """Is 0 or 1, whatever its gradient."""
    u = z * w
    hard = rnnc.where(u > 0, 1, 0)
    return hard + v * (u - rnnc.stop_gradient(u))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_straight_through_value_is_binary(dtype):
    wx = torch.randn(3, 7, 1, 32, 2, dtype=dtype, device="cuda")
    R = torch.randn(2, 1, 32, 32, dtype=dtype, device="cuda") / 6
    params = {"w": torch.rand(1, 32, dtype=dtype, device="cuda")}
    (h,), _ = rnnc.scan(straight_through, wx, R, params=params, backend="cuda")
    assert h.unique().tolist() == [0.0, 1.0]
