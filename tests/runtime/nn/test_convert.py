"""`rnnc.convert` on models."""

from __future__ import annotations

import copy
import pickle

import pytest
import rnnc
import torch
from torch import nn

NAMES = ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True)
        self.cell = nn.GRUCell(12, 5)
        self.same = self.rnn
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        y, (h, _) = self.rnn(x)
        state = self.cell(y[:, 0])
        return self.head(self.cell(y[:, -1], state)) + h.sum()


def test_a_model_in_place():
    model, x = Tagger(), torch.randn(3, 7, 4)
    calls = []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    twin, places = copy.deepcopy(model), [id(p) for p in model.parameters()]
    hook = model.rnn.register_forward_hook(lambda *_: calls.append(1))
    report = rnnc.convert(model, force=True)
    assert report.replaced == {
        "rnn": ("torch.nn.LSTM", "rnnc.nn.LSTM"),
        "cell": ("torch.nn.GRUCell", "rnnc.nn.GRUCell"),
    }
    assert not report.left
    assert model.same is model.rnn
    assert places == [id(p) for p in model.parameters()]
    assert list(model.state_dict()) == list(twin.state_dict())
    other = torch.optim.SGD(twin.parameters(), 0.1)
    for _ in range(3):
        torch.testing.assert_close(model(x), twin(x))
        for each, its in ((model, optimizer), (twin, other)):
            its.zero_grad()
            each(x).square().sum().backward()
            its.step()
    assert len(calls) == 6
    hook.remove()
    assert not rnnc.convert(model).replaced
    assert rnnc.convert(model, back=True).replaced["rnn"] == ("rnnc.nn.LSTM", "torch.nn.LSTM")
    assert type(model.rnn) is nn.LSTM
    assert model.rnn.__dict__.keys() == twin.rnn.__dict__.keys()
    torch.testing.assert_close(model(x), twin(x))
    torch.testing.assert_close(pickle.loads(pickle.dumps(model.rnn))(x), twin.rnn(x))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("subclasses", [True, False])
def test_the_root_itself(name, subclasses):
    theirs = getattr(nn, name)(3, 4)
    ours, x = copy.deepcopy(theirs), torch.randn(2, 3)
    rnnc.convert(ours, isinstance=subclasses, force=True)
    assert isinstance(ours, type(theirs)) == subclasses
    assert type(ours).__module__ == "rnnc.nn"
    assert getattr(rnnc.nn, type(ours).__name__) is type(ours)
    torch.testing.assert_close(ours(x), theirs(x))
    theirs.load_state_dict(ours.state_dict())
    assert repr(ours) == repr(theirs)
    rnnc.convert(ours, isinstance=not subclasses)
    assert isinstance(ours, type(theirs)) != subclasses
    torch.testing.assert_close(ours(x), theirs(x))
    made = type(ours)(3, 4)
    made.load_state_dict(ours.state_dict())
    again = pickle.loads(pickle.dumps(made))
    torch.testing.assert_close(copy.deepcopy(again)(x), theirs(x))


def test_what_a_plain_module_does_as_torchs():
    theirs = nn.LSTM(3, 4, 2, bidirectional=True, dropout=0.1).eval()
    ours = copy.deepcopy(theirs)
    rnnc.convert(ours, isinstance=False)
    packed = nn.utils.rnn.pack_sequence([torch.randn(n, 3) for n in (2, 4)], enforce_sorted=False)
    torch.testing.assert_close(ours(packed)[0].data, theirs(packed)[0].data)
    torch.testing.assert_close(ours(packed)[1], theirs(packed)[1])
    assert ours.all_weights[0][0] is ours.weight_ih_l0
    assert ours.flatten_parameters() is None
    half = ours.to(torch.bfloat16)
    assert half(torch.randn(5, 3, dtype=torch.bfloat16))[0].dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="Expected 3, got 7"):
        ours.double()(torch.randn(5, 2, 7, dtype=torch.float64))
    ours.reset_parameters()


class Peephole(nn.LSTM):
    def forward(self, input, hx=None):
        return super().forward(2 * input, hx)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_left():
    weighed, replaced = nn.GRU(3, 4), nn.GRU(3, 4)
    nn.utils.parametrizations.weight_norm(weighed, "weight_hh_l0")
    replaced.forward = replaced.forward
    model = nn.ModuleDict(
        {
            "mine": Peephole(3, 4),
            "weighed": weighed,
            "replaced": replaced,
            "projected": nn.LSTM(3, 4, proj_size=2, dtype=torch.float64),
            "two bytes": nn.LSTM(3, 4, dtype=torch.bfloat16),
            "script": torch.jit.script(nn.GRU(3, 4)),
            "quantised": torch.ao.nn.quantizable.LSTM(3, 4),
            "linear": nn.Linear(3, 4),
        }
    )
    report = rnnc.convert(model)
    assert not report.replaced
    assert report.left.pop("mine").startswith("a subclass of torch.nn.LSTM")
    assert report.left.pop("weighed").startswith("parametrized")
    assert report.left.pop("replaced").startswith("the module has a forward of its own")
    assert report.left.pop("projected").startswith("proj_size with float64 on a CPU")
    assert report.left.pop("two bytes").startswith("torch.bfloat16 on cpu")
    assert report.left.pop("script").startswith("compiled by torch.jit")
    assert report.left.pop("quantised") == "quantised"
    assert not [name for name in report.left if "." not in name]
    forced = rnnc.convert(model, force=True)
    assert {"projected", "two bytes"} <= set(forced.replaced)
    assert "replaced" in forced.left


def test_where_torch_is_faster():
    small, cell = nn.LSTM(3, 64), nn.GRUCell(3, 256)
    kept = [nn.LSTM(3, 65), nn.LSTM(3, 4, bidirectional=True), nn.LSTM(3, 4, dtype=torch.float64)]
    kept.append(nn.LSTMCell(3, 257))
    kept.append(nn.LSTM(3, 256, proj_size=128))
    large = nn.LSTM(3, 257, proj_size=128)
    report = rnnc.convert(nn.ModuleList([small, cell, *kept, large]))
    assert list(report.left) == ["0", "1", "7"]
    assert list(report.replaced) == ["2", "3", "4", "5", "6"]
    assert report.left["7"].startswith("proj_size with 257 units on a CPU")
    faster = "float32 on a CPU, where torch's module is faster"
    assert report.left["0"] == f"an LSTM of one direction, 64 units, {faster}"
    assert report.left["1"] == f"a cell of 256 units, {faster}"
    assert str(report).splitlines()[-1] == (
        "Decided by class, directions, units, dtype and device, not by batch or steps, as measured:"
        " docs/nn.md#where-torch-is-faster. force=True converts these too."
    )
    assert rnnc.convert(nn.ModuleList([small, cell]), force=True).replaced.keys() == {"0", "1"}


def test_the_table():
    model = nn.ModuleDict({"a": nn.GRU(3, 4), "b": Peephole(3, 4)})
    lines = str(rnnc.convert(model)).splitlines()
    assert lines[0].split() == ["module", "was", "is"]
    assert lines[1].split() == ["a", "torch.nn.GRU", "rnnc.nn.GRU"]
    assert lines[3].split() == ["left", "why"]
    assert str(rnnc.convert(nn.Linear(2, 2))) == "no recurrent modules of torch"
    assert str(rnnc.convert(nn.GRU(2, 2))).splitlines()[1].startswith("(model)")


def test_bad_arguments():
    with pytest.raises(rnnc.TensorError, match=r"torch\.nn\.Module"):
        rnnc.convert("model")
    with pytest.raises(rnnc.TensorError, match="True or False"):
        rnnc.convert(nn.Linear(2, 2), force=1)


def test_what_stays_when_a_model_goes_back():
    class Own(rnnc.nn.GRU):
        pass

    model = nn.ModuleList([rnnc.nn.LSTM(3, 4), Own(3, 4), rnnc.nn.GRUCell(3, 4), nn.GRU(3, 4)])
    nn.utils.parametrizations.weight_norm(model[0], "weight_hh_l0")
    report = rnnc.convert(model, back=True)
    assert report.replaced == {"2": ("rnnc.nn.GRUCell", "torch.nn.GRUCell")}
    assert report.left == {
        "0": "parametrized, which gives it a class of its own",
        "1": "a subclass of rnnc.nn.GRU, which may compute something else",
    }
