"""Which way each ability takes in each way of calling `rnnc.scan` and `rnnc.scan_packed`.

The ways are those of `test_abilities.py`; "copied" are packed rows that a call pads first. A row
that changes is an ability that was won, or lost in silence.
"""

from __future__ import annotations

import pytest
import rnnc
import torch

from ...ways import REFUSED, Seen, refusal, way_of_compiled

B, T, D = 2, 5, 4
STARTS = torch.tensor([0, 2, B * T], dtype=torch.int32)


@rnnc.cell
def gated(z: rnnc.Gate, n: rnnc.Gate, h: rnnc.State, w: rnnc.Param, *, keep: rnnc.Input):
    """A cell with a param, and an input that no weight multiplies."""
    return keep * rnnc.sigmoid(z) * h + rnnc.tanh(w * n)


def noisy(per):
    @rnnc.cell
    def drawing(n: rnnc.Gate, h: rnnc.State, *, keep: rnnc.Input = rnnc.bernoulli(0.2, per=per)):
        """A cell with an input that calls draw."""
        return keep * h + rnnc.tanh(n)

    return drawing


# The cell, and what a call has besides wx and weights.
ABILITIES = {
    "a cell": (rnnc.cells.lstm, ()),
    "heads": (rnnc.cells.lstm, ("heads",)),
    "states given": (rnnc.cells.lstm, ("states",)),
    "states saved": (rnnc.cells.lstm, ("save",)),
    "reversed": (rnnc.cells.lstm, ("reverse",)),
    "lengths": (rnnc.cells.lstm, ("lengths",)),
    "resets": (rnnc.cells.lstm, ("reset",)),
    "reset values": (rnnc.cells.lstm, ("reset", "reset_to")),
    "stored values": (rnnc.cells.lstm, ("reset", "stored")),
    "an Input": (gated, ("inputs",)),
    "a drawn Input": (noisy("step"), ()),
    "drawn per sequence": (noisy("sequence"), ("reset",)),
    "means": (noisy("sequence"), ("mean",)),
    "no matrices": (rnnc.cells.hgrn, ("reset",)),
    "stages": (rnnc.cells.gru_reset_first, ("reset",)),
}
WAYS = ("inference", "training", "known", "second", "vmap", "compiled")
SECOND = (
    'gradient of a gradient: backend="reference", which autograd can differentiate to any order'
)
STORED = "reset_to: rnnc.scan, which takes stored states"
ALL = ("node", "node", "program", SECOND, "node", "operator")
NO_ARGUMENT, NO_STORED = ("no argument",) * len(WAYS), (STORED,) * len(WAYS)
# In the order of WAYS, of each function; those that are not named are as `ALL`.
OTHERS = {
    ("scan_packed", "lengths"): NO_ARGUMENT,
    ("scan_packed", "stored values"): NO_STORED,
}


def arguments(function, cell, wanted):
    """The positional and the other arguments of a call."""
    torch.manual_seed(0)
    heads = 2 if "heads" in wanted else 1
    packed = function == "scan_packed"
    rows, plane = (B * T,) if packed else (B, T), (heads, D)
    wx = torch.randn(*rows, *plane, len(cell.input_gates))
    named = {"params": {p.name: torch.randn(plane) for p in cell.params}}
    if cell.dense_pairs:
        named["R"] = torch.randn(len(cell.dense_pairs), heads, D, D) / D
    if packed:
        named |= {"cu_seqlens": STARTS, "max_seqlen": int(STARTS.diff().max())}
    if "states" in wanted:
        named["states"] = [torch.randn(B, *plane) for _ in cell.states]
    if "save" in wanted:
        named["save"] = "states"
    if "reverse" in wanted:
        named["reverse"] = True
    if "lengths" in wanted:
        named["lengths"] = torch.tensor([T, 2])
    if "reset" in wanted:
        named["reset"] = torch.rand(rows) < 0.5
    for word, outer in ("reset_to", (B,)), ("stored", (B, T)):
        if word in wanted:
            named["reset_to"] = [torch.randn(*outer, *plane) for _ in cell.states]
    if "inputs" in wanted:
        named["inputs"] = {"keep": torch.rand(rows)}
    if "mean" in wanted:
        named["sample"] = False
    return wx, named


def taken(way, function, cell, wanted, monkeypatch):
    """The way of a call, and whether its rows were padded for it."""
    run, (wx, named) = getattr(rnnc, function), arguments(function, cell, wanted)

    def call(wx):
        return run(cell, wx, **named)[0][0]

    if way == "compiled":
        call(wx)  # a compiler wraps refusals in its own errors
        return way_of_compiled(call, wx)
    seen = Seen(monkeypatch)
    if way == "vmap":
        torch.vmap(call, randomness="different")(torch.stack([wx, wx]))
        return seen.way()
    leaf = wx.requires_grad_(way != "inference")
    for _ in range(3 if way == "known" else 0):
        call(leaf)
    seen.names = []
    h = call(leaf)
    if way in ("training", "known"):
        h.sum().backward()
    if way == "second":
        (d,) = torch.autograd.grad(h.square().sum(), leaf, create_graph=True)
        d.sum().backward()
        return "differentiated"
    return seen.way()


def ways(function, ability, monkeypatch):
    """The way of each way of calling, in the order of WAYS."""
    for way in WAYS:
        try:
            yield taken(way, function, *ABILITIES[ability], monkeypatch)
        except REFUSED as error:
            yield refusal(error)


@pytest.mark.parametrize("ability", ABILITIES)
@pytest.mark.parametrize("function", ["scan", "scan_packed"])
def test_each_way_of_calling(function, ability, monkeypatch):
    found = tuple(ways(function, ability, monkeypatch))
    assert found == OTHERS.get((function, ability), ALL)
