"""A stepper on a GPU: the bits of `step` from a CUDA graph, and what changes between its calls."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import rnnc
import torch


def module_of(name="lstm", dtype=torch.float32, layers=2, heads=1, hidden=96, **options):
    options = {"heads": heads, "num_layers": layers, "device": "cuda", "dtype": dtype} | options
    return rnnc.RNN(rnnc.cells.get(name), 40, hidden, **options)


def inputs_of(rnn, batch, steps=20):
    dtype = next(rnn.parameters()).dtype
    return torch.randn(steps, batch, 40, device=next(rnn.parameters()).device, dtype=dtype)


def run_steps(rnn, xs, states=None):
    with torch.no_grad():
        for x in xs:
            y, states = rnn.step(x, states)
    return y, states


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("batch", [1, 7, 20, 40])
@pytest.mark.parametrize("name", ["lstm", "gru", "indrnn"])
def test_the_bits_of_steps(name, batch, heads, dtype):
    rnn = module_of(name, dtype, heads=heads)
    stepper, states = rnn.stepper(batch), None
    assert "a CUDA graph" in repr(stepper)
    for x in inputs_of(rnn, batch):
        y, states = run_steps(rnn, [x], states)
        assert torch.equal(stepper(x), y)
    assert all(map(torch.equal, stepper.states, states))


@pytest.mark.parametrize(("dtype", "batch"), [(torch.bfloat16, 16), (torch.float64, 3)])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gru_reset_first", {"heads": 3}),
        ("joint_norm_lstm", {}),
        ("joint_norm_lstm", {"hidden": 768, "layers": 1}),
        ("block_gru", {"layers": 1}),
    ],
)
def test_the_bits_of_steps_of_cells_with_stages(name, sizes, batch, dtype):
    rnn = module_of(name, dtype, **sizes)
    stepper, states = rnn.stepper(batch), None
    assert "a CUDA graph" in repr(stepper)
    xs = inputs_of(rnn, batch)
    for x in xs:
        y, states = run_steps(rnn, [x], states)
        assert torch.equal(stepper(x), y)
    assert all(map(torch.equal, stepper.states, states))
    wanted, last = rnn(xs)
    for found, expected in zip((y, *states), (wanted[-1], *last), strict=True):
        error = (found.double() - expected.double()).norm() / expected.double().norm()
        assert error < (1e-9 if dtype == torch.float64 else 2e-2)


@pytest.mark.parametrize("name", ["lstm", "joint_norm_lstm"])
def test_weights_changed_in_place_are_seen(name):
    rnn = module_of(name, layers=1)
    stepper, (x,) = rnn.stepper(4), inputs_of(rnn, 4, 1)
    optimizer = torch.optim.Adam(rnn.parameters(), lr=0.1)
    for change in (rnn.reset_parameters, lambda: rnn.weight_hh_l0.data.mul_(2), optimizer.step):
        rnn.step(x)[0].sum().backward()
        change()
        stepper.reset()
        assert torch.equal(stepper(x), run_steps(rnn, [x])[0])


@pytest.mark.parametrize("change", [lambda rnn: rnn.cpu(), lambda rnn: rnn.half()])
def test_weights_that_are_elsewhere_are_refused(change):
    rnn = module_of(layers=1)
    stepper, (x,) = rnn.stepper(4), inputs_of(rnn, 4, 1)
    change(rnn)
    with pytest.raises(rnnc.TensorError, match="weight_ih_l0"):
        stepper(x)


def test_resets_and_saved_states():
    rnn = module_of()
    xs = inputs_of(rnn, 4)
    stepper, other = rnn.stepper(4), rnn.stepper(4)
    for x in xs[:5]:
        stepper(x)
    stepper.reset(torch.tensor([True, False, True, False], device="cuda"))
    saved = {name: value.cpu() for name, value in stepper.state_dict().items()}
    assert not saved["h"][:, ::2].any()
    other.load_state_dict(saved)
    for x in xs[5:]:
        assert torch.equal(stepper(x), other(x))


def test_a_side_stream_and_inference_mode_and_autocast():
    rnn = module_of()
    xs = inputs_of(rnn, 4)
    wanted, _ = run_steps(rnn, xs)
    stepper, stream = rnn.stepper(4), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
        for x in xs:
            y = stepper(x)
    stream.synchronize()
    assert y.dtype == torch.float32
    assert torch.equal(y, wanted)


def test_two_threads_with_a_stepper_each():
    rnn = module_of()
    batches = [inputs_of(rnn, 4), inputs_of(rnn, 40)]

    def run(xs):
        with torch.cuda.stream(torch.cuda.Stream()):
            stepper = rnn.stepper(xs.shape[1])
            for x in xs:
                y = stepper(x)
            torch.cuda.current_stream().synchronize()
            return y

    wanted = [run_steps(rnn, xs)[0] for xs in batches]
    torch.cuda.synchronize()
    with ThreadPoolExecutor(2) as threads:
        assert all(map(torch.equal, threads.map(run, batches), wanted))


def test_a_stepper_is_not_made_in_a_capture():
    rnn = module_of()
    rnn.step(torch.randn(4, 40, device="cuda"))
    x = torch.zeros(1, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        with pytest.raises(rnnc.TensorError, match="captures a graph"):
            rnn.stepper(4)
        x.add_(1)


def test_another_device_than_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    rnn = module_of().to("cuda:1")
    xs = inputs_of(rnn, 40)
    stepper = rnn.stepper(40)
    for x in xs:
        y = stepper(x)
    assert y.device.index == 1
    assert torch.cuda.current_device() == 0
    assert torch.equal(y, run_steps(rnn, xs)[0])


def test_weights_with_gaps_are_copied_inside_of_the_graph():
    rnn = module_of(layers=1)
    rnn.weight_hh_l0.data = rnn.weight_hh_l0.data.mT.contiguous().mT
    stepper, (x,) = rnn.stepper(4), inputs_of(rnn, 4, 1)
    stepper(x)
    with torch.no_grad():
        rnn.weight_hh_l0.mul_(2)
    stepper.reset()
    assert torch.equal(stepper(x), run_steps(rnn, [x])[0])
