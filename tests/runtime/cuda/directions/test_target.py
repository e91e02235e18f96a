"""Which layers of both directions run as one call on a GPU, and what that launches."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc.runtime.call import ragged as given
from rnnc.runtime.call.layer_call import Choice, layer_call_of
from rnnc.runtime.cuda.target import CudaTarget
from rnnc.runtime.targets.by_torch import ONE_LANE
from rnnc.runtime.targets.registry import TARGETS
from torch.nn.utils.rnn import pack_sequence

LSTM = rnnc.cells.lstm


def joins(heads, dim, batch, dtype=torch.bfloat16, **choice):
    layer_call = layer_call_of(LSTM.text, "simulated", True, (True, True), Choice(**choice), False)
    like = torch.empty(0, dtype=dtype)
    return TARGETS["simulated"].joins(layer_call, like, batch, heads, dim)


@pytest.mark.parametrize(
    ("sizes", "joint"),
    [
        ((1, 128, 32), True),  # half of the chip is free
        ((12, 64, 16), True),
        ((1, 768, 16), True),  # fewer blocks per head take little longer
        ((1, 640, 64), False),  # one direction leaves no room
        ((1, 1024, 32), False),
    ],
)
def test_directions_that_fit_together_are_one_call(sizes, joint, simulated_gpu):
    assert joins(*sizes) == joint


def test_a_launch_per_step_gains_nothing(simulated_gpu):
    assert not joins(1, 128, 32, variant="alternating")
    assert not joins(1, 128, 32, torch.float64)


def test_a_kind_that_holds_one_direction_alone_runs_both_by_themselves(simulated_gpu):
    assert not joins(1, 4096, 16, torch.float32, variant="grid"), "and raises no PlanError"


@pytest.mark.parametrize(("batch", "launches"), [(16, 1), (96, 2)])
def test_a_layer_is_one_launch_where_both_directions_are_one_call(
    batch, launches, simulated_gpu, monkeypatch
):
    monkeypatch.setattr(TARGETS["simulated"], "lanes", lambda *_: ONE_LANE)
    options = {"bidirectional": True, "backend": "simulated", "variant": "cluster"}
    module = rnnc.RNN(LSTM, 8, 384, **options, dtype=torch.bfloat16)
    y, _ = module(torch.randn(5, batch, 8, dtype=torch.bfloat16))
    assert y.shape == (5, batch, 768)
    assert simulated_gpu == ["rnnc_forward"] * launches
    y.sum().backward()
    assert simulated_gpu[launches:] == ["rnnc_backward"] * launches


@pytest.mark.parametrize("form", [None, (), (3,), (5, 3)], ids=str)
def test_lengths_and_resets_are_one_launch_too(form, simulated_gpu):
    options = {"bidirectional": True, "backend": "simulated", "num_layers": 2}
    module = rnnc.RNN(LSTM, 8, 64, **options, dtype=torch.bfloat16)
    values = None
    if form is not None:
        values = [torch.zeros(4, *form, 64, dtype=torch.bfloat16) for _ in LSTM.states]
        values = [value.requires_grad_(len(form) < 2) for value in values]
    reset = torch.rand(5, 3) < 0.5 if form is not None else None
    x = torch.randn(5, 3, 8, dtype=torch.bfloat16)
    y, _ = module(x, lengths=torch.tensor([5, 0, 2]), reset=reset, reset_to=values)
    y.sum().backward()
    assert simulated_gpu == ["rnnc_forward"] * 2 + ["rnnc_backward"] * 2
    for value in values or ():
        assert (value.grad is not None) == value.requires_grad
        assert value.grad is None or value.grad.shape == value.shape


# The share of the steps that run, of three rows and 40 steps, in eighths.
FILLS = {(40, 39, 2): 0.625, (40, 40, 39): 1.0, (40, 1, 1): 0.375}


@pytest.mark.parametrize(("lengths", "fill"), FILLS.items())
def test_packed_rows_are_one_launch_too(lengths, fill, simulated_gpu, monkeypatch):
    """Their plan is asked for the batch of sequences, and for the share of steps that run."""
    asked = []
    joins = CudaTarget.joins
    target = TARGETS["simulated"]

    def noted(layer_call, like, batch, heads, dim):
        asked.append((layer_call.choice.fill, batch))
        return joins(target, layer_call, like, batch, heads, dim)

    monkeypatch.setattr(target, "joins", noted)
    lstm = rnnc.nn.LSTM(8, 64, bidirectional=True)
    settings = lstm._settings()._replace(backend="simulated")
    monkeypatch.setattr(lstm, "_settings", lambda: settings)
    rows = [torch.randn(n, 8) for n in lengths]
    found, _ = lstm(pack_sequence(rows))
    found.data.sum().backward()
    assert asked == [(fill, 3)]
    assert simulated_gpu == ["rnnc_forward", "rnnc_backward"]


def test_lengths_that_the_host_sees_say_how_many_steps_run(simulated_gpu, monkeypatch):
    """Calls that differ in that alone are not taken for each other."""
    monkeypatch.setattr(given, "_host_alone_sees", lambda *_: True)
    module = rnnc.RNN(LSTM, 8, 64, backend="simulated", dtype=torch.bfloat16)
    x = torch.randn(40, 3, 8, dtype=torch.bfloat16)
    cases = [(torch.tensor(n, dtype=torch.int32), share) for n, share in FILLS.items()]
    for _ in range(2):
        for lengths, _ in cases:
            module(x, lengths=lengths)
    for lengths, fill in cases:
        rows = lengths, None, None
        ready = module._known_calls.find_sequence(module, x, None, rows)
        assert ready.entry.call.directions[0].choice.fill == fill


def test_the_host_does_not_wait_for_lengths():
    lengths = torch.tensor([4, 2, 0, 1], dtype=torch.int32)
    x = torch.empty(7, 4, 3, device="meta")
    assert given.Ragged(lengths, None, None).on(x).fill == 0.25
    for own, where in ((lengths.to("meta"), x), (lengths, x.new_empty(x.shape, device="cpu"))):
        found = given.Ragged(own, None, None).on(where)
        assert (found.fill, found.lengths.dtype) == (1.0, torch.int64)


def test_layers_of_both_directions_never_run_at_the_same_time(simulated_gpu, monkeypatch):
    """A layer reads all steps of the layer below, of which the last ones come first."""
    target = TARGETS["simulated"]
    for name in ("forward_layers", "backward_layers"):
        monkeypatch.setattr(target, name, lambda *_: pytest.fail("layers at the same time"))
    options = {"bidirectional": True, "backend": "simulated", "num_layers": 3}
    module = rnnc.RNN(LSTM, 8, 128, **options, dtype=torch.bfloat16)
    y, _ = module(torch.randn(400, 16, 8, dtype=torch.bfloat16))
    y.sum().backward()
    assert simulated_gpu == ["rnnc_forward"] * 3 + ["rnnc_backward"] * 3
