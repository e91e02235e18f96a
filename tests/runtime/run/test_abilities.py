"""Which way each ability takes in each way of calling a module, and what is refused.

The ways, of a CPU:

- `node`: one node of autograd, or one call of kernels, for all layers.
- `program`: what an earlier call of this kind asked of the device, executed again.
- `layers`: kernels, but layer by layer, since each is projected by torch.
- `operator`: one operator of torch for all layers.
- `no argument`: the way has no such argument.
- Anything else is a refusal: its first line, and what to write instead.

A row that changes is an ability that was won, or lost in silence.
"""

from __future__ import annotations

import pytest
import rnnc
import torch

from ...ways import REFUSED, Seen, refusal, way_of_compiled

B, T, INPUT, HIDDEN = 2, 5, 3, 4


@rnnc.cell
def gated(z: rnnc.Gate, n: rnnc.Gate, h: rnnc.State, *, keep: rnnc.Input):
    """A cell with an input that no weight multiplies."""
    return keep * rnnc.sigmoid(z) * h + rnnc.tanh(n)


@rnnc.cell
def looping(z: rnnc.Gate, h: rnnc.State):
    """A cell with a loop, and a value with the gradient of another."""
    h = rnnc.repeat(3, lambda h: h + 0.1 * (rnnc.tanh(z) - h), h)
    return rnnc.with_gradient(rnnc.heaviside(h), of=rnnc.sigmoid(h)) * h


def noisy(per):
    @rnnc.cell
    def drawing(
        z: rnnc.Gate,
        n: rnnc.Gate,
        h: rnnc.State,
        *,
        keep: rnnc.Input = rnnc.bernoulli(0.2, per=per),
    ):
        """A cell with an input that calls draw."""
        return keep * rnnc.sigmoid(z) * h + rnnc.tanh(n)

    return drawing


ABILITIES = {
    "one layer": ({}, {}),
    "three layers": ({"num_layers": 3}, {}),
    "heads": ({"heads": 2}, {}),
    "both directions": ({"bidirectional": True}, {}),
    "dropout": ({"num_layers": 2, "dropout": 0.5}, {}),
    "projection": ({"proj_size": 2}, {}),
    "states saved": ({"save": "states"}, {}),
    "states given": ({}, {"states": 2}),
    "lengths": ({}, {"lengths": True}),
    "resets": ({}, {"reset": True}),
    "reset values": ({}, {"reset": True, "reset_to": True}),
    "all states": ({}, {"all_states": True}),
    "an Input": ({"cell": gated}, {"inputs": True}),
    "a drawn Input": ({"cell": noisy("step"), "num_layers": 2}, {}),
    "drawn per sequence": ({"cell": noisy("sequence")}, {}),
    "means": ({"cell": noisy("sequence"), "num_layers": 2}, {"sample": True}),
    "no matrices": ({"cell": rnnc.cells.hgrn, "num_layers": 2}, {"reset": True}),
    "a loop": ({"cell": looping, "num_layers": 2}, {}),
    "stages": ({"cell": rnnc.cells.gru_reset_first, "num_layers": 2}, {}),
    "stages, lengths": ({"cell": rnnc.cells.gru_reset_first}, {"lengths": True}),
}
WAYS = ("inference", "training", "known", "second", "step", "trained step", "stepper", "compiled")
SECOND = (
    'gradient of a gradient: backend="reference", which autograd can differentiate to any order'
)
ONE_WAY = "rnnc.RNN(..., bidirectional=False), or forward on the whole sequence"
PASSED = "inputs: inputs={'keep': …}, drawn ahead of the first step; or sample=False"
BOTH = f"step: {ONE_WAY}", f"step: {ONE_WAY}", f"stepper: {ONE_WAY}"
CALLS, STEPS = ("node", "node", "program"), ("node", "node", "node")
NONE = ("no argument", "no argument", "no argument")
# In the order of WAYS.
TABLE = {
    "one layer": (*CALLS, SECOND, *STEPS, "operator"),
    "three layers": (*CALLS, SECOND, *STEPS, "operator"),
    "heads": (*CALLS, SECOND, *STEPS, "operator"),
    "both directions": (*CALLS, SECOND, *BOTH, "operator"),
    "dropout": (*CALLS, SECOND, *STEPS, "operator"),
    "projection": (*STEPS, SECOND, "layers", "layers", "layers", "operator"),
    "states saved": (*CALLS, SECOND, *STEPS, "operator"),
    "states given": (*CALLS, SECOND, *STEPS, "operator"),
    "lengths": (*CALLS, SECOND, *NONE, "operator"),
    "resets": (*CALLS, SECOND, "node", "node", "no argument", "operator"),
    "reset values": (*CALLS, SECOND, "node", "node", "no argument", "operator"),
    "all states": (*CALLS, SECOND, *NONE, "operator"),
    "an Input": (*CALLS, SECOND, *STEPS, "operator"),
    "a drawn Input": (*CALLS, SECOND, *STEPS, "operator"),
    "drawn per sequence": (*CALLS, SECOND, PASSED, PASSED, "node", "operator"),
    "means": (*CALLS, SECOND, "node", "node", "no argument", "operator"),
    "no matrices": (*CALLS, SECOND, "node", "node", "no argument", "operator"),
    "a loop": (*CALLS, SECOND, *STEPS, "operator"),
    "stages": (*CALLS, SECOND, *STEPS, "operator"),
    "stages, lengths": (*CALLS, SECOND, *NONE, "operator"),
}


def module(options):
    options = dict(options)
    cell = options.pop("cell", rnnc.cells.lstm)
    torch.manual_seed(0)
    return rnnc.RNN(cell, INPUT, HIDDEN, **options)


def given(rnn, wanted, single=False):
    """The arguments of a call besides x."""
    parts = rnn.num_layers * (2 if rnn.bidirectional else 1)
    time, found = () if single else (T,), {}
    if "states" in wanted:
        found["states"] = [torch.randn(parts, B, HIDDEN) for _ in range(2)]
    if "lengths" in wanted:
        found["lengths"] = torch.tensor([T, 2])
    if "reset" in wanted:
        found["reset"] = torch.rand(*time, B) < 0.5
    if "reset_to" in wanted:
        found["reset_to"] = [torch.randn(parts, HIDDEN) for _ in range(2)]
    if "all_states" in wanted:
        found["all_states"] = True
    if "sample" in wanted:
        found["sample"] = False
    if "inputs" in wanted:
        found["inputs"] = {"keep": torch.rand(*time, B)}
    return found


def ways(options, wanted, monkeypatch):
    """The way of each way of calling, in the order of WAYS."""
    for way in WAYS:
        try:
            yield taken(way, options, wanted, monkeypatch)
        except REFUSED as error:
            yield refusal(error)


def taken(way, options, wanted, monkeypatch):
    rnn = module(options)
    x, row = torch.randn(T, B, INPUT), torch.randn(B, INPUT)
    if way == "compiled":
        return way_of_compiled(rnn, x, **given(rnn, wanted))
    seen = Seen(monkeypatch)
    if way in ("inference", "training", "known"):
        for _ in range(3 if way == "known" else 1):
            with torch.set_grad_enabled(way != "inference"):
                rnn(x, **given(rnn, wanted))
        seen.names = []
        with torch.set_grad_enabled(way != "inference"):
            y, *_ = rnn(x, **given(rnn, wanted))
        if way == "inference":
            return seen.way()
        y.sum().backward()
        return seen.way()
    if way == "second":
        leaf = x.requires_grad_()
        y, *_ = rnn(leaf, **given(rnn, wanted))
        (d,) = torch.autograd.grad(y.square().sum(), leaf, create_graph=True)
        d.sum().backward()
        return "differentiated"
    if way == "stepper":
        stepper = rnn.stepper(B)
        seen.names = []
        more = given(rnn, wanted, single=True)
        more.pop("states", None)
        stepper(row, **more)
        return seen.way()
    with torch.set_grad_enabled(way == "trained step"):
        rnn.step(row, **given(rnn, wanted, single=True))
    return seen.way()


@pytest.mark.parametrize("ability", ABILITIES)
def test_each_way_of_calling(ability, monkeypatch):
    found = tuple(ways(*ABILITIES[ability], monkeypatch))
    assert found == TABLE[ability]
