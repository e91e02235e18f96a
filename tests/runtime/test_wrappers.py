"""`rnnc.zoneout` and `rnnc.noisy` against a loop from the paper; weights load both ways."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Constant, Gate, Input, State, constant, tanh, uniform

T, B, INPUT, HIDDEN = 5, 3, 4, 6


def zoneout_lstm(rnn, x, keep_h, keep_c):
    """Krueger et al., 2017, equations 1 to 3 and section 3.2; masks, or their means, (T, B, D)."""
    W, R, b = rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_l0
    h = c = x.new_zeros(x.shape[1], HIDDEN)
    found = []
    for t in range(len(x)):
        i, f, g, o = (x[t] @ W.T + h @ R.T + b).chunk(4, -1)
        new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        new_h = o.sigmoid() * new_c.tanh()
        c = keep_c[t] * c + (1 - keep_c[t]) * new_c
        h = keep_h[t] * h + (1 - keep_h[t]) * new_h
        found.append(h)
    return torch.stack(found)


def module(cell, **options):
    torch.manual_seed(0)
    return rnnc.RNN(cell, INPUT, HIDDEN, dtype=torch.float64, **options)


def gradients(rnn, y):
    return torch.autograd.grad(y.square().sum(), list(rnn.parameters()))


def test_zoneout_is_that_of_the_paper():
    rnn = module(rnnc.zoneout(rnnc.cells.lstm, {"h": 0.05, "c": 0.5}))
    x = torch.randn(T, B, INPUT).double()
    pairs = (("zoneout_h", 0.05), ("zoneout_c", 0.5))
    keep = {name: (torch.rand(T, B, HIDDEN) < p).double() for name, p in pairs}
    y = rnn(x, inputs=keep)[0]
    wanted = zoneout_lstm(rnn, x, keep["zoneout_h"], keep["zoneout_c"])
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(gradients(rnn, y), gradients(rnn, wanted))
    rnn.eval()
    wanted = zoneout_lstm(rnn, x, [0.05] * T, [0.5] * T)
    torch.testing.assert_close(rnn(x)[0], wanted)


def test_noise_is_added_to_gates_and_gone_without_samples():
    rnn, plain = module(rnnc.noisy("gru", 0.3, ["r", "n"])), module("gru")
    assert [i.name for i in rnn.cell.inputs] == ["noise_r", "noise_n"]
    x = torch.randn(T, B, INPUT).double()
    zero = {"noise_r": torch.zeros(T, B).double(), "noise_n": torch.ones(T, B).double()}
    with torch.no_grad():
        plain.bias_l0.view(4, HIDDEN)[rnnc.cells.gru.bias_gates.index("n")] += 1
        torch.testing.assert_close(rnn(x, inputs=zero)[0], plain(x)[0])
        assert not torch.allclose(rnn(x)[0], rnn(x)[0])
        rnn.eval()
        torch.testing.assert_close(rnn(x)[0], module("gru")(x)[0])
    assert [i.name for i in rnnc.noisy("gru", 0.3).inputs] == [
        f"noise_{gate.name}" for gate in rnnc.cells.gru.gates
    ]


def test_noise_is_added_to_a_gate_that_a_value_of_the_step_feeds():
    rnn, x = module(rnnc.noisy("gru_reset_first", 0.3)), torch.randn(T, B, INPUT).double()
    noise = {f"noise_{gate}": torch.randn(T, B, HIDDEN).double() for gate in ("r", "z", "n")}
    y = rnn(x, inputs=noise)[0]
    h, found = x.new_zeros(B, HIDDEN), []
    for t in range(T):
        from_x = x[t] @ rnn.weight_ih_l0.T + rnn.bias_l0
        r, z, n = (
            part + noise[f"noise_{gate}"][t]
            for gate, part in zip("rzn", from_x.chunk(3, -1), strict=True)
        )
        R_r, R_z, R_n = rnn.weight_hh_l0.chunk(3)
        r, z = (r + h @ R_r.T).sigmoid(), (z + h @ R_z.T).sigmoid()
        h = z * h + (1 - z) * (n + (r * h) @ R_n.T).tanh()
        found.append(h)
    torch.testing.assert_close(y, torch.stack(found))
    torch.testing.assert_close(gradients(rnn, y), gradients(rnn, torch.stack(found)))
    rnn.eval()
    assert torch.equal(rnn(x)[0], module("gru_reset_first")(x)[0])


def test_names_of_values_stay():
    for noisy in (rnnc.noisy("izhikevich", 0.1), rnnc.noisy("nested_lstm", 0.1)):
        plain = rnnc.cells.get(noisy.name.removesuffix("_with_noise"))
        names = [line.partition(" = ")[0] for line in plain.equations()]
        lines = [line for line in noisy.equations() if " ~ " not in line]
        assert [line.partition(" = ")[0] for line in lines] == names
        assert noisy.mean().equations() == plain.equations()


@pytest.mark.parametrize("wrapped", [rnnc.zoneout("lstm", 0.2), rnnc.noisy("lstm", 0.2)])
def test_weights_load_both_ways(wrapped):
    noisy, plain = module(wrapped), module("lstm")
    noisy.load_state_dict(plain.state_dict())
    with torch.no_grad():
        noisy.bias_l0 += 1
    plain.load_state_dict(noisy.state_dict())
    assert torch.equal(plain.bias_l0, noisy.bias_l0)
    with pytest.raises(rnnc.TensorError, match="the weights of cifg_lstm"):
        noisy.load_state_dict(module("cifg_lstm").state_dict())


def test_constants_of_draws_are_no_part_of_an_identity():
    """Their values need not fit together there."""

    @rnnc.cell
    def between(
        g: Gate,
        h: State,
        *,
        u: Input = uniform("low", "high"),
        low: Constant = constant(-1),
        high: Constant = constant(-0.5),
    ):
        return tanh(g) + u * h

    saved = module(between).state_dict()
    module(between.with_constants(low=-3)).load_state_dict(saved)


def test_states_read_the_new_value_before_the_choice_and_keep_their_order():
    cell = rnnc.zoneout("lstm", {"c": 0.5})
    assert cell.equations()[4:] == (
        "zoneout_c ~ bernoulli(0.5)",
        "h' = sigmoid(o)*tanh(sigmoid(f)*c + sigmoid(i)*tanh(z))",
        "c' = zoneout_c*c + (1 - zoneout_c)*(sigmoid(f)*c + sigmoid(i)*tanh(z))",
    )
    assert cell.states == rnnc.cells.lstm.states
    assert cell.gates == rnnc.cells.lstm.gates
    assert rnnc.zoneout("leaky_rate", "alpha").inputs[0].draw.names == ("alpha",)


TWICE = rnnc.zoneout("lstm", 0.1)


@pytest.mark.parametrize(
    ("call", "found", "write"),
    [
        (
            lambda: rnnc.zoneout("lstm", {"k": 0.1}),
            "zoneout of 'k', which is no state",
            "{'h': 0.1}",
        ),
        (lambda: rnnc.zoneout("lstm", {}), "zoneout of no state", "{'h': 0.1}"),
        (lambda: rnnc.zoneout("lstm", 2), "bernoulli(2)", "bernoulli(0.1)"),
        (lambda: rnnc.zoneout("lstm", "p"), "no constant `p`", "p: Constant"),
        (
            lambda: rnnc.zoneout(TWICE, 0.1),
            "`zoneout_h` in the cell",
            "the cell",
        ),
        (lambda: rnnc.zoneout(3, 0.1), "an int", "a function decorated"),
        (lambda: rnnc.noisy("lstm", 0.1, ["k"]), "noise of 'k', which is no gate", "gates=['i']"),
        (lambda: rnnc.noisy("lstm", 0.1, "zo"), "noise of 'zo', which is no gate", "gates=['i']"),
        (lambda: rnnc.noisy("lstm", 0.1, 3), "noise of 3, which is no gate", "gates=['i']"),
        (lambda: rnnc.noisy("lstm", -1), "normal(0, -1)", "normal(mean=0, std=1)"),
    ],
)
def test_refusals(call, found, write):
    with pytest.raises(rnnc.CellError) as caught:
        call()
    assert found in caught.value.found
    assert caught.value.write.startswith(write)
