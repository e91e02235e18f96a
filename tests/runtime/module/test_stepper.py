"""A stepper: what `step` gives, states in place, resets, saved states, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import rnnc
import torch

B = 3


def module_of(name="lstm", layers=2, dtype=torch.float32, **options):
    return rnnc.RNN(rnnc.cells.get(name), 4, 6, num_layers=layers, dtype=dtype, **options)


def states_of(rnn):
    shape = (rnn.num_layers, B, rnn.hidden_size)
    return [torch.rand(shape, dtype=next(rnn.parameters()).dtype) for _ in rnn.cell.states]


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("name", ["lstm", "slstm", "indrnn"])
def test_a_stepper_does_what_steps_do(name, given, backend):
    rnn = module_of(name, backend=backend)
    states = states_of(rnn) if given else None
    stepper = rnn.stepper(B, states)
    for x in torch.randn(5, B, 4):
        y, states = rnn.step(x, states)
        found = stepper(x)
        assert torch.equal(found, y)
        assert not found.requires_grad
    assert all(map(torch.equal, stepper.states, states))


def test_the_result_is_one_buffer():
    stepper = module_of().stepper(B)
    first, second = stepper(torch.randn(B, 4)), stepper(torch.randn(B, 4))
    assert first is second


def test_a_result_that_autograd_saved_is_not_overwritten_unseen():
    stepper = module_of().stepper(B)
    weight = torch.randn(6, requires_grad=True)
    loss = (stepper(torch.randn(B, 4)) * weight).sum()
    stepper(torch.randn(B, 4))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_reset_of_all_and_of_some():
    rnn = module_of()
    states = states_of(rnn)
    stepper = rnn.stepper(B, states)
    stepper(torch.randn(B, 4))
    before = [s.clone() for s in stepper.states]
    stepper.reset(torch.tensor([True, False, True]))
    for now, old, initial in zip(stepper.states, before, states, strict=True):
        assert torch.equal(now[:, 1], old[:, 1])
        assert torch.equal(now[:, ::2], initial[:, ::2])
    stepper.reset()
    assert all(map(torch.equal, stepper.states, states))
    states[0].zero_()  # the stepper has copies
    stepper.reset()
    assert not torch.equal(stepper.states[0], states[0])


def test_states_are_saved_and_restored():
    rnn = module_of()
    stepper, other = rnn.stepper(B), rnn.stepper(B)
    for x in torch.randn(3, B, 4):
        stepper(x)
    saved = pickle.loads(pickle.dumps(stepper.state_dict()))
    assert list(saved) == [s.name for s in rnn.cell.states]
    x = torch.randn(B, 4)
    wanted = stepper(x).clone()
    other.load_state_dict(saved)
    assert torch.equal(other(x), wanted)
    with pytest.raises(rnnc.TensorError, match="state_dict"):
        other.load_state_dict({})
    with pytest.raises(rnnc.TensorError, match=r"shape \(2, 1, 6\)"):
        other.load_state_dict({name: value[:, :1] for name, value in saved.items()})


def test_weights_changed_in_place_are_seen():
    rnn = module_of(layers=1)
    stepper, x = rnn.stepper(B), torch.randn(B, 4)
    for change in (
        lambda: rnn.weight_ih_l0.data.mul_(2),
        lambda: rnn.reset_parameters(),
        lambda: rnn.load_state_dict(module_of(layers=1).state_dict()),
    ):
        change()
        stepper.reset()
        assert torch.equal(stepper(x), rnn.step(x)[0])
    rnn.requires_grad_(False)
    stepper(x)


def replaced(rnn):
    rnn.weight_ih_l0 = torch.nn.Parameter(rnn.weight_ih_l0.detach().clone())


def other_data(rnn):
    rnn.weight_ih_l0.data = rnn.weight_ih_l0.data.clone()


def parametrized(rnn):
    torch.nn.utils.parametrizations.weight_norm(rnn, "weight_ih_l0")


@pytest.mark.parametrize(
    "change",
    [replaced, other_data, parametrized, lambda rnn: rnn.double(), lambda rnn: rnn.to("meta")],
)
def test_weights_that_are_elsewhere_are_refused(change):
    rnn = module_of(layers=1)
    stepper = rnn.stepper(B)
    change(rnn)
    with pytest.raises(rnnc.TensorError, match="weight_ih_l0"):
        stepper(torch.randn(B, 4))


def test_computed_weights_take_no_graph_and_are_computed_again():
    rnn = module_of(layers=1)
    parametrized(rnn)
    stepper, x = rnn.stepper(B), torch.randn(B, 4)
    with torch.no_grad():
        rnn.parametrizations.weight_ih_l0.original0.mul_(2)
    assert torch.equal(stepper(x), rnn.step(x)[0])


def test_no_dropout():
    rnn = module_of(dropout=1.0)
    assert rnn.training
    stepper, x = rnn.stepper(B), torch.randn(B, 4)
    assert torch.equal(stepper(x), rnn.eval().step(x)[0])


def test_modes_of_torch():
    rnn = module_of()
    with torch.inference_mode():
        made = rnn.stepper(B)
    x = torch.randn(B, 4, requires_grad=True)
    wanted, _ = rnn.step(x)
    assert torch.equal(made(x), wanted)
    made.reset()
    with torch.inference_mode():
        assert torch.equal(made(x), wanted)
        made.reset(torch.ones(B, dtype=torch.bool))
    with torch.autocast("cpu", torch.bfloat16):
        found = made(x)
    assert found.dtype == torch.float32
    assert torch.equal(found, wanted)


def test_the_module_is_copied_and_pickled_with_a_stepper_around():
    rnn = module_of()
    stepper, x = rnn.stepper(B), torch.randn(B, 4)
    for other in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        stepper.reset()
        assert torch.equal(other.stepper(B)(x), stepper(x))


def test_two_threads_with_a_stepper_each():
    rnn = module_of()
    xs = torch.randn(2, 20, B, 4)

    def run(x):
        stepper = rnn.stepper(B)
        return torch.stack([stepper(each).clone() for each in x])

    wanted = [run(x) for x in xs]
    with ThreadPoolExecutor(2) as threads:
        assert all(map(torch.equal, threads.map(run, xs), wanted))


def test_inputs_that_do_not_fit_are_named():
    rnn = module_of()
    stepper = rnn.stepper(B)
    for x, found in (
        (torch.randn(B + 1, 4), r"shape \(4, 4\)"),
        (torch.randn(B, 4, dtype=torch.float64), "float64"),
        (torch.randn(B, 4, device="meta"), "device meta"),
        ([1.0], "list"),
        (None, "None"),
    ):
        with pytest.raises(rnnc.TensorError, match=found):
            stepper(x)
    with pytest.raises(rnnc.TensorError, match="mask"):
        stepper.reset(torch.zeros(B))
    with pytest.raises(rnnc.TensorError, match="batch_size"):
        rnn.stepper(0)
    with pytest.raises(rnnc.TensorError, match="states"):
        rnn.stepper(B, [torch.zeros(2, B, 6)])
    with pytest.raises(rnnc.TensorError, match="bidirectional"):
        module_of(bidirectional=True).stepper(B)


def test_kernels_of_a_simulated_gpu_without_a_graph(simulated_gpu):
    stepper = module_of(backend="simulated").stepper(B)
    assert "no graph" in repr(stepper)
    stepper(torch.randn(B, 4))
    assert simulated_gpu == ["rnnc_step_forward"] * 2


def test_graphs_take_the_two_sets_of_states_in_turns(emulated_gpu, monkeypatch):
    """A graph that is replayed is a run of the same tensors."""
    rnn = module_of("gru", backend="simulated", dtype=torch.float64)
    target = type(rnnc.runtime.targets.registry.TARGETS["simulated"])
    monkeypatch.setattr(
        target, "capture", lambda self, device, runs: [run() and run for run in runs]
    )
    stepper, states = rnn.stepper(B), None
    assert "a CUDA graph" in repr(stepper)
    for x in torch.randn(3, B, 4, dtype=torch.float64):
        y, states = rnn.step(x, states)
        assert torch.equal(stepper(x), y)
        assert all(map(torch.equal, stepper.states, states))
