"""`rnnc.RNN`: parameters, layouts, `step`, options, and errors for wrong arguments."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import rnnc
import torch
from rnnc import Gate, Param, State, gate, param, tanh


@rnnc.cell
def odd(
    h: State,
    c: State,
    *,
    a: Gate = gate(source="c"),
    b: Gate = gate(input=False, recurrent="diagonal", bias=False),
    w: Param = param(0.5),
):
    """Has a bit of everything, and a first gate that reads the second state."""
    return tanh(a + w * b), h * w


def test_parameters_and_their_shapes():
    rnn = rnnc.RNN(odd, 3, 8, heads=2, num_layers=2)
    shapes = {k: tuple(v.shape) for k, v in rnn.named_parameters()}
    assert shapes == {
        "weight_ih_l0": (8, 3),
        "weight_hh_l0": (8, 4),
        "weight_hd_l0": (8,),
        "bias_l0": (8,),
        "w_l0": (2, 4),
        "weight_ih_l1": (8, 8),
        "weight_hh_l1": (8, 4),
        "weight_hd_l1": (8,),
        "bias_l1": (8,),
        "w_l1": (2, 4),
    }


@pytest.mark.parametrize("name", ["bias", "batch_first", "bidirectional", "dropout"])
@pytest.mark.parametrize("value", [3, "yes", None, True])
def test_flags_and_dropout_are_of_their_types(name, value):
    """As in torch's modules, where a number in place of a flag is a slip of a position."""
    options = {name: value}
    if value is True and name != "dropout":
        assert getattr(rnnc.RNN(odd, 3, 8, **options), name) is True
        return
    with pytest.raises(rnnc.TensorError) as caught:
        rnnc.RNN(odd, 3, 8, **options)
    assert (caught.value.where, caught.value.found) == (name, repr(value))


def test_initialisation_of_every_parameter():
    torch.manual_seed(0)
    rnn = rnnc.RNN(odd, 300, 128, heads=2)
    for matrix in rnn.weight_hh_l0.split(64):
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(64), atol=1e-5, rtol=0)
    assert rnn.weight_ih_l0.abs().max() <= math.sqrt(3 / 300)
    assert rnn.weight_ih_l0.var().item() == pytest.approx(1 / 300, rel=0.05)
    assert 0.5 < rnn.weight_hd_l0.abs().max() <= 1
    assert torch.equal(rnn.bias_l0, torch.zeros(128))
    assert torch.equal(rnn.w_l0, torch.full((2, 64), 0.5))
    before = {k: v.clone() for k, v in rnn.state_dict().items()}
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.fill_(7)
    rnn.reset_parameters()
    for key, value in rnn.state_dict().items():
        assert (value != 7).any(), key
        assert value.shape == before[key].shape


def test_layers_heads_and_steps_are_the_same_function():
    for cell in (odd, rnnc.cells.slstm):
        rnn = rnnc.RNN(cell, 5, 12, heads=3, num_layers=2, dtype=torch.float64)
        x = torch.randn(6, 4, 5, dtype=torch.float64)
        y, last = rnn(x)
        states = None
        for t in range(6):
            y_t, states = rnn.step(x[t], states)
            torch.testing.assert_close(y_t, y[t])
        for got, wanted in zip(states, last, strict=True):
            torch.testing.assert_close(got, wanted)
        # In two pieces, and for one sequence without a batch.
        first, middle = rnn(x[:2])
        second, _ = rnn(x[2:], middle)
        torch.testing.assert_close(torch.cat([first, second]), y)
        alone, alone_last = rnn(x[:, 1])
        torch.testing.assert_close(alone, y[:, 1])
        torch.testing.assert_close(alone_last[0], last[0][:, 1])
        one, one_states = rnn.step(x[0, 1])
        torch.testing.assert_close(one, y[0, 1])
        assert one_states[0].shape == (2, 12)


def test_batch_first_is_a_matter_of_strides():
    rnn = rnnc.RNN(odd, 5, 12)
    other = rnnc.RNN(odd, 5, 12, batch_first=True)
    other.load_state_dict(rnn.state_dict())
    x = torch.randn(6, 4, 5)
    torch.testing.assert_close(other(x.transpose(0, 1))[0], rnn(x)[0].transpose(0, 1))


def test_no_bias():
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, bias=False)
    assert not [k for k, _ in rnn.named_parameters() if "bias" in k]
    biased = rnnc.RNN(rnnc.cells.lstm, 4, 6)
    biased.load_state_dict(rnn.state_dict(), strict=False)
    x = torch.randn(3, 2, 4)
    torch.testing.assert_close(rnn(x)[0], biased(x)[0])


def test_dropout_acts_between_layers_in_training_only():
    rnn = rnnc.RNN(rnnc.cells.gru, 4, 32, num_layers=2, dropout=0.5)
    x = torch.randn(3, 2, 4)
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    first_layer = [rnn(x)[1][0][0] for _ in range(2)]
    assert torch.equal(*first_layer)
    rnn.eval()
    assert torch.equal(rnn(x)[0], rnn(x)[0])


def test_initial_states_of_the_cell():
    @rnnc.cell
    def counter(g: Gate, h: State = rnnc.state(init=2.0)):
        """Starts at 2."""
        return h + g

    rnn = rnnc.RNN(counter, 1, 3)
    y, _ = rnn(torch.zeros(2, 1, 1))
    expected = rnn(torch.zeros(2, 1, 1), (torch.full((1, 1, 3), 2.0),))[0]
    assert torch.equal(y, expected)
    assert not torch.equal(y, rnn(torch.zeros(2, 1, 1), (torch.zeros(1, 1, 3),))[0])


def test_a_cell_without_input_runs_for_as_many_steps():
    @rnnc.cell
    def free(h: State, *, g: Gate = gate(input=False)):
        """Runs by itself."""
        return tanh(g)

    rnn = rnnc.RNN(free, 4, 6)
    y, _ = rnn(torch.randn(5, 2, 4), (torch.randn(1, 2, 6),))
    assert y.shape == (5, 2, 6)
    y.sum().backward()
    assert rnn.weight_hh_l0.grad.abs().sum() > 0


def test_copies_pickles_and_state_dicts():
    rnn = rnnc.RNN(odd, 3, 8, heads=2)
    x = torch.randn(4, 2, 3)
    for other in (copy.deepcopy(rnn), rnnc.RNN(odd, 3, 8, heads=2)):
        other.load_state_dict(rnn.state_dict())
        assert torch.equal(other(x)[0], rnn(x)[0])
    library = rnnc.RNN(rnnc.cells.lstm, 3, 8)
    assert torch.equal(pickle.loads(pickle.dumps(library))(x)[0], library(x)[0])


def test_half_precision_is_float32_inside():
    for dtype in (torch.bfloat16, torch.float16):
        rnn = rnnc.RNN(rnnc.cells.lstm, 6, 16, dtype=dtype)
        x = torch.randn(20, 3, 6, dtype=dtype)
        y, last = rnn(x)
        assert y.dtype == last[1].dtype == dtype
        exact = copy.deepcopy(rnn).float()(x.float())[0]
        assert (y.float() - exact).abs().max() < 2 * torch.finfo(dtype).eps
        y.sum().backward()
        assert rnn.weight_hh_l0.grad.dtype == dtype


def test_extra_repr():
    assert repr(rnnc.RNN(odd, 3, 8)) == "RNN(odd, 3, 8)"
    rnn = rnnc.RNN(odd, 3, 8, heads=2, num_layers=2, bias=False, batch_first=True, dropout=0.1)
    assert repr(rnn) == (
        "RNN(odd, 3, 8, heads=2, num_layers=2, bias=False, batch_first=True, dropout=0.1)"
    )


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((odd, math.nan, 8), {}, "input_size\n  found:  nan\n  wanted: a whole number, at least 1"),
        ((odd, 3, 8.0), {}, "hidden_size\n  found:  8.0"),
        ((odd, 3, 0), {}, "hidden_size\n  found:  0"),
        ((odd, 3, "8"), {}, "hidden_size\n  found:  '8'"),
        ((odd, 3, 8), {"heads": 3}, "3 with hidden_size=8\n  wanted: a divisor of hidden_size"),
        ((odd, 3, 10**9 + 7), {"heads": 2}, "a divisor of hidden_size\n  write:  heads=1, or"),
        ((odd, 3, 2**31), {}, "hidden_size\n  found:  2147483648\n  wanted: at most 2147482624"),
        ((odd, 10**30, 8), {}, "input_size\n  found:  a number of more than 30 digits"),
        ((odd, 3, 8), {"heads": True}, "heads\n  found:  True"),
        ((odd, 3, 8), {"num_layers": -1}, "num_layers\n  found:  -1"),
        ((odd, 3, 8), {"dropout": 1.5}, "dropout\n  found:  1.5\n  wanted: a probability"),
        ((odd, 3, 8), {"dropout": math.nan}, "dropout\n  found:  nan"),
        ((odd, 3, 8), {"backend": "triton"}, "one of auto, cpu, cuda, reference"),
        (("lsmt", 3, 8), {}, "cell\n  found:  no cell of the name 'lsmt'\n  wanted: a cell"),
    ],
)
def test_bad_arguments(arguments, options, text):
    with pytest.raises(rnnc.TensorError) as caught:
        rnnc.RNN(*arguments, **options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("x", "states", "text"),
    [
        (torch.zeros(2, 3, 4), None, "x\n  found:  shape (2, 3, 4)\n  wanted: (T, B, input)"),
        (torch.zeros(2, 3, 4, 3), None, "x\n  found:  shape (2, 3, 4, 3)"),
        (torch.zeros(3), None, "x\n  found:  shape (3,)"),
        ([1.0], None, "x\n  found:  a list"),
        (
            torch.zeros(2, 5, 3).double(),
            None,
            "x\n  found:  dtype torch.float64\n  wanted: torch",
        ),
        (torch.zeros(2, 5, 3, device="meta"), None, "x\n  found:  device meta\n  wanted: cpu"),
        (
            torch.zeros(2, 5, 3),
            (torch.zeros(1, 5, 8),),
            "states\n  found:  1 of them\n  wanted: a t",
        ),
        (torch.zeros(2, 5, 3), torch.zeros(1, 5, 8), "states\n  found:  a Tensor"),
        (
            torch.zeros(2, 5, 3),
            (torch.zeros(1, 5, 8), torch.zeros(1, 4, 8)),
            "states[c]\n  found:  shape (1, 4, 8)\n  wanted: (1, 5, 8)",
        ),
        (
            torch.zeros(2, 5, 3),
            (torch.zeros(1, 5, 8), torch.zeros(1, 5, 8).double()),
            "states[c]\n  found:  dtype torch.float64",
        ),
    ],
)
def test_bad_tensors(x, states, text):
    with pytest.raises(rnnc.TensorError) as caught:
        rnnc.RNN(odd, 3, 8)(x, states)
    assert text in str(caught.value)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", ["weight_ih", "weight_hh", "bias", "weight_hd", "w"])
def test_a_weight_on_another_device_is_named(name, layer):
    x, attribute = torch.randn(2, 3, 3), f"{name}_l{layer}"
    rnn = rnnc.RNN(odd, 3, 4, num_layers=2)
    rnn(x)
    weight = getattr(rnn, attribute).detach().to("meta")
    setattr(rnn, attribute, torch.nn.Parameter(weight))
    elsewhere = attribute if (name, layer) != ("weight_ih", 0) else "x"  # the first one met
    for call, given in ((rnn, x), (rnn.step, x[0])):
        with pytest.raises(rnnc.TensorError) as caught:
            call(given)
        assert str(caught.value).startswith(f"{elsewhere}\n  found:  device ")
        assert "meta" in str(caught.value)
        assert "cpu" in str(caught.value)


def good(**changes):
    call = {
        "wx": torch.randn(2, 3, 1, 4, 1),
        "R": torch.randn(1, 1, 4, 4),
        "b": torch.randn(1, 1, 4),
        "R_diag": torch.randn(1, 1, 4),
        "params": {"w": torch.randn(1, 4)},
    }
    return call | changes


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"wx": None}, "wx\n  found:  None"),
        ({"wx": torch.randn(2, 3, 4, 1)}, "wx\n  found:  shape (2, 3, 4, 1)"),
        ({"wx": torch.randn(2, 3, 1, 4, 2)}, "wx\n  found:  shape (2, 3, 1, 4, 2)"),
        ({"wx": torch.zeros(2, 3, 1, 4, 1).long()}, "wx\n  found:  dtype torch.int64"),
        ({"wx": torch.randn(2, 3, 1, 0, 1)}, "at least one head and one unit"),
        ({"R": None}, "R\n  found:  None\n  wanted: (1, 1, 4, 4), (Gr, N, D out, D in)"),
        ({"R": torch.randn(1, 4, 4)}, "R\n  found:  shape (1, 4, 4)"),
        ({"R": torch.randn(1, 1, 4, 4).double()}, "R\n  found:  dtype torch.float64"),
        ({"R": torch.randn(1, 1, 4, 4, device="meta")}, "R\n  found:  device meta"),
        ({"b": torch.randn(1, 4)}, "b\n  found:  shape (1, 4)"),
        ({"R_diag": None}, "R_diag\n  found:  None"),
        (
            {"params": None},
            "params\n  found:  []\n  wanted: a dict with a tensor for each of",
        ),
        ({"params": {"v": torch.randn(1, 4)}}, "params\n  found:  ['v']"),
        ({"params": {"w": torch.randn(4)}}, "params['w']\n  found:  shape (4,)"),
        ({"states": (torch.randn(2, 1, 4),)}, "states\n  found:  1 of them"),
        ({"states": torch.randn(2, 1, 4)}, "states\n  found:  a Tensor"),
        (
            {"states": (torch.randn(2, 1, 4), torch.randn(3, 1, 4))},
            "states[c]\n  found:  shape (3, 1, 4)",
        ),
        ({"backend": "triton"}, "backend\n  found:  'triton'"),
    ],
)
def test_bad_tensors_of_scan(changes, text):
    rnnc.scan(odd, **good())
    with pytest.raises(rnnc.TensorError) as caught:
        rnnc.scan(odd, **good(**changes))
    assert text in str(caught.value)


def test_a_tensor_that_no_gate_takes_is_refused():
    call = good(params=None, R_diag=torch.randn(1, 1, 4))
    with pytest.raises(rnnc.TensorError, match="none: no gate uses it"):
        rnnc.scan(rnnc.cells.elman, **call)


def test_other_devices_run_the_reference_and_say_so_once():
    rnnc.runtime.process.caller.warn_once.cache_clear()
    rnn = rnnc.RNN(rnnc.cells.elman, 3, 4, device="meta")
    with pytest.warns(RuntimeWarning, match="no kernels for the device 'meta'"):
        y, _ = rnn(torch.zeros(2, 5, 3, device="meta"))
    assert y.shape == (2, 5, 4)
    with pytest.raises(rnnc.TensorError, match='"cpu" with tensors on meta'):
        rnnc.RNN(rnnc.cells.elman, 3, 4, device="meta", backend="cpu")(
            torch.zeros(2, 5, 3, device="meta")
        )


def test_a_cell_without_gates_or_weights():
    @rnnc.cell
    def decay(h: State, *, a: rnnc.Constant = rnnc.constant(0.5)):
        """Forgets."""
        return a * h

    rnn = rnnc.RNN(decay, 2, 3)
    assert not list(rnn.parameters())
    start = torch.ones(1, 4, 3, requires_grad=True)
    y, _ = rnn(torch.zeros(5, 4, 2), (start,))
    assert torch.equal(y[:, 0, 0].detach(), 0.5 ** torch.arange(1, 6))
    y[-1].sum().backward()
    assert torch.equal(start.grad, torch.full_like(start, 0.5**5))


def test_a_known_call_is_found_again_until_something_differs():
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, num_layers=2, dropout=0.5).eval()
    x, states = torch.randn(7, 3, 4), [torch.zeros(2, 3, 6) for _ in range(2)]

    def known(x=x, states=states):
        return rnn._known_calls.find_sequence(rnn, x, states) is not None

    rnn(x, states)
    assert not known()  # a length that comes once is not worth it
    rnn(x, states)
    assert known()
    assert not known(x[0])
    assert not known(x[:5])
    assert not known(x.double())
    assert not known(x.clone().requires_grad_())
    assert not known(states=None)
    assert not known("a text")
    assert not known(x.to_sparse())
    assert not known(x.transpose(0, 1).contiguous().transpose(0, 1))
    with torch.no_grad():
        assert not known()
    for change in (
        lambda: rnn.train(),
        lambda: rnn.weight_hh_l1.requires_grad_(False),
        lambda: setattr(rnn, "backend", "reference"),
        lambda: setattr(rnn, "weight_hh_l0", torch.nn.Parameter(torch.zeros(20, 6))),
    ):
        change()
        assert not known()
        rnn.eval()
        rnn.weight_hh_l1.requires_grad_()
        rnn.backend = "auto"
