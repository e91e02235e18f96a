"""A state dict records the cell of its weights."""

from __future__ import annotations

import io

import pytest
import rnnc
import torch
from rnnc import Constant, Gate, Param, State, constant, param, relu, tanh
from rnnc.runtime.module import identity
from torch import nn


def saved(module):
    """Through a file."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    return torch.load(file)


def test_another_cells_weights_are_refused_by_both_names():
    source = rnnc.RNN(rnnc.cells.slstm, 3, 8)
    target = rnnc.RNN(rnnc.cells.lstm, 3, 8)
    assert source.state_dict().keys() == target.state_dict().keys()
    before = {k: v.clone() for k, v in target.state_dict().items()}
    for state_dict in (source.state_dict(), saved(source)):
        for strict in (True, False):
            with pytest.raises(rnnc.TensorError) as caught:
                target.load_state_dict(state_dict, strict=strict)
            for text in (
                "the weights of slstm",
                "wanted: those of lstm",
                "write:  rnnc.RNN('slstm', ",
            ):
                assert text in str(caught.value)
    for key, value in target.state_dict().items():
        assert torch.equal(value, before[key])
    # The advice: all the same.
    target.load_state_dict(dict(source.state_dict()))
    assert torch.equal(target.weight_hh_l0, source.weight_hh_l0)
    rnnc.RNN("slstm", 3, 8).load_state_dict(saved(source))


def test_nested_modules_and_prefixes():
    def model(cell):
        return nn.Sequential(nn.Linear(2, 3), nn.Sequential(rnnc.RNN(cell, 3, 8, num_layers=2)))

    source, target = model(rnnc.cells.gru), model(rnnc.cells.gru)
    target.load_state_dict(saved(source))
    with pytest.raises(
        rnnc.TensorError, match=r"state_dict of 1.0\n  found:  the weights of slstm"
    ):
        model(rnnc.cells.lstm).load_state_dict(saved(model(rnnc.cells.slstm)))
    # As DistributedDataParallel prefixes them.
    wrapped = saved(nn.ModuleDict({"module": model(rnnc.cells.slstm)}))
    nn.modules.utils.consume_prefix_in_state_dict_if_present(wrapped, "module.")
    model(rnnc.cells.slstm).load_state_dict(wrapped)
    with pytest.raises(rnnc.TensorError, match="weights of slstm"):
        model(rnnc.cells.lstm).load_state_dict(wrapped)


def test_no_word_of_a_cell_is_no_complaint():
    source = rnnc.RNN(rnnc.cells.slstm, 3, 8).state_dict()
    del source._metadata[""]["cell"]
    rnnc.RNN(rnnc.cells.lstm, 3, 8).load_state_dict(source)
    assert set(source) == {"weight_ih_l0", "weight_hh_l0", "bias_l0"}


def test_constants_may_change_and_equations_may_not():
    def one(g: Gate, h: State, *, alpha: Constant = constant(0.1)):
        """A leak."""
        return (1 - alpha) * h + alpha * tanh(g)

    leak = rnnc.cell(one)
    source = saved(rnnc.RNN(leak.with_constants(alpha=0.7), 3, 8))
    rnnc.RNN(leak, 3, 8).load_state_dict(source)
    assert leak.with_constants(alpha=0.7).fingerprint != leak.fingerprint

    def one(g: Gate, h: State, *, alpha: Constant = constant(0.1)):
        """Another function of the same name."""
        return (1 - alpha) * h + alpha * relu(g)

    with pytest.raises(rnnc.TensorError) as caught:
        rnnc.RNN(rnnc.cell(one), 3, 8).load_state_dict(source)
    assert str(caught.value) == (
        "state_dict of the module\n"
        "  found:  the weights of another cell that is called one, with"
        " h' = (1 - alpha)*h + alpha*tanh(g)\n"
        "  wanted: those of one, with h' = (1 - alpha)*h + alpha*relu(g)\n"
        "  write:  an rnnc.RNN of the one that they were saved with,"
        " or load_state_dict(dict(state_dict)) to load them all the same"
    )


def edited(*lines, states=("h", "c"), more=()):
    """A cell of equations as text, as a notebook has it after an edit."""
    declared = ["g: Gate", *(f"{s}: State" for s in states), *more]
    text = f"def own({', '.join(declared)}):\n"
    text += "".join(f"    {line}\n" for line in lines)
    scope = {"Gate": Gate, "State": State, "Param": Param, "tanh": tanh}
    exec(text, scope)
    return rnnc.cell(scope["own"])


LONG = " + ".join(f"tanh({i}.5*g)" for i in range(40))
DIFFERENCES = {
    "a gate": (
        edited("return tanh(g) + c, tanh(c)"),
        rnnc.cells.scrn,
        ("own, with g = x_g + R_g h + b_g", "scrn, with g = x_g"),
    ),
    "one equation more": (
        edited("return tanh(g)", states="h"),
        edited("return tanh(g), tanh(c)"),
        ("another cell that is called own, with no c'", "those of own, with c' = tanh(c)"),
    ),
    "a place in a long equation": (
        edited(f"return {LONG}, c"),
        edited(f"return {LONG.replace('15.5', '15.7')}, c"),
        ("own, with …", "tanh(15.5*g)", "\n  wanted: those of own, with …", "tanh(15.7*g)"),
    ),
    "a factor, which changes the order of the lines": (
        edited("return tanh(g), tanh(c)"),
        edited("return 2*tanh(g), tanh(c)"),
        ("called own, with h' = tanh(g)", "those of own, with h' = 2*tanh(g)"),
    ),
    "an order": (
        edited("return tanh(g*a) + b, tanh(c)", more=("a: Param", "b: Param")),
        edited("return tanh(g*a) + b, tanh(c)", more=("b: Param", "a: Param")),
        ("own, with the same equations", "with its own order of states, params and inputs"),
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_first_difference_is_shown(name):
    before, after, texts = DIFFERENCES[name]
    source = saved(rnnc.RNN(before, 3, 8))
    with pytest.raises(rnnc.TensorError) as caught:
        rnnc.RNN(after, 3, 8).load_state_dict(source)
    for text in texts:
        assert text in str(caught.value)
    assert max(map(len, str(caught.value).splitlines())) < 200
    rnnc.RNN(before, 3, 8).load_state_dict(source)  # the advice


def test_files_without_equations_are_refused_too():
    source = rnnc.RNN(rnnc.cells.slstm, 3, 8).state_dict()
    del source._metadata[""]["cell"]["equations"]
    with pytest.raises(rnnc.TensorError, match=r"of slstm\n  wanted: those of lstm\n  write"):
        rnnc.RNN(rnnc.cells.lstm, 3, 8).load_state_dict(source)


# Cells that compute the same, with other gradients.
SURROGATES = {"rlif_atan", "rlif_fast_sigmoid", "rlif_triangle"}
# And those that compute the same without noise.
TWINS = [SURROGATES, {"lstm", "zoneout_lstm"}, {"leaky_rate", "noisy_rate"}]


@pytest.mark.parametrize("name", list(rnnc.cells.names()))
def test_every_cell_of_the_library_differs_from_all_others(name):
    digests = {n: identity.identity_of(rnnc.cells.get(n)) for n in rnnc.cells.names()}
    own = digests[name]
    assert own["name"] == name
    equal = {n for n, other in digests.items() if other["digest"] == own["digest"]}
    assert equal == next((twins for twins in TWINS if name in twins), {name})


def test_weights_load_between_cells_that_differ_in_the_surrogate_alone():
    modules = [rnnc.RNN(rnnc.cells.get(name), 3, 8) for name in sorted(SURROGATES)]
    for module in modules[1:]:
        module.load_state_dict(modules[0].state_dict())
    x = torch.randn(5, 2, 3)
    assert all(torch.equal(module(x)[0], modules[0](x)[0]) for module in modules)


def test_the_digest_depends_on_no_mode():
    cell = rnnc.cells.unicornn
    wanted = identity.identity_of(cell)
    state = torch.random.get_rng_state()
    for context in (
        torch.inference_mode(),
        torch.device("meta"),
        torch._subclasses.FakeTensorMode(),
        torch.autocast("cpu", torch.bfloat16),
    ):
        identity._compared.cache_clear()
        with context:
            assert identity.identity_of(cell) == wanted
    assert torch.equal(torch.random.get_rng_state(), state)


NAMES = ["weight_ih", "weight_hh", "weight_hd", "bias"]


@pytest.mark.parametrize(
    "name", [*NAMES[2:], *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES[:2])]
)
def test_a_param_with_the_name_of_a_weight_is_refused_and_the_advice_works(name):
    def build(param_name):
        namespace = {}
        text = f"""
def lb(i: Gate, f: Gate, h: State, c: State, {param_name}: Param = param(0.5)):
    c = tanh(f) * c + tanh(i)
    return tanh(c) + {param_name}, c
"""
        scope = {"Gate": Gate, "State": State, "Param": Param, "param": param, "tanh": tanh}
        exec(text, scope, namespace)
        return rnnc.cell(namespace["lb"])

    for bias in (True, False):
        with pytest.raises(rnnc.TensorError) as caught:
            rnnc.RNN(build(name), 3, 16, bias=bias)
    assert f"the param {name} of lb" in str(caught.value)
    advised = str(caught.value).split("write:  ")[1].split(":")[0]
    rnn = rnnc.RNN(build(advised), 3, 16, dtype=torch.float64)
    twin = rnnc.RNN(build(advised), 3, 16, backend="reference", dtype=torch.float64)
    twin.load_state_dict(rnn.state_dict())
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(rnn(x)[0], twin(x)[0])
    # `scan` has no such names, and takes it.
    cell = build(name)
    wx, R = torch.randn(2, 3, 1, 4, 2), torch.randn(2, 1, 4, 4)
    given = {"params": {name: torch.randn(1, 4)}}
    got = rnnc.scan(cell, wx, R, **given)[0][0]
    torch.testing.assert_close(got, rnnc.scan(cell, wx, R, **given, backend="reference")[0][0])
