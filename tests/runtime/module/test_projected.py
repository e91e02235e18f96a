"""Modules whose output is projected, against torch's LSTM and against loops over a row's steps."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from types import SimpleNamespace

import pytest
import rnnc
import torch
import torch.nn.functional as F  # noqa: N812
from rnnc import Constant, Gate, Param, State, constant, exp, gate, param, state, tanh
from rnnc.errors import TensorError
from rnnc.runtime.targets.reference import evaluate
from torch.fx.experimental.proxy_tensor import make_fx

NAN = float("nan")
B, T, INPUT, HIDDEN, P = 4, 6, 3, 8, 3
LENGTHS = (6, 0, 4, 5)
RESETS = ([0, 3], [2], [1, 4, 5], [])
OPTIONS = [{}, {"bidirectional": True, "num_layers": 2}]


@rnnc.cell
def odd(
    a: Gate,
    h: State = state(init=0.5),
    v: State = state(init=-0.25),
    k: Param = param(init=0.7),
    two: Constant = constant(2.0),
    *,
    b: Gate = gate(input=False),
    c: Gate = gate(recurrent="diagonal", source="v"),
):
    """A gate without input, one weight per unit, a param and states that do not begin at zero."""
    v = 0.5 * v + tanh(a) * k + 0.25 * c
    h = tanh(v + b) * two
    return h, v


def module(cell=rnnc.cells.lstm, **options):
    sizes = {"proj_size": P, "dtype": torch.float64} | options
    rnn = rnnc.RNN(cell, INPUT, HIDDEN, **sizes)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.uniform_(-0.7, 0.7)
    return rnn


def torch_twin(rnn):
    """Torch's LSTM with the weights of a module of one head."""
    twin = torch.nn.LSTM(
        rnn.input_size,
        rnn.hidden_size,
        rnn.num_layers,
        batch_first=rnn.batch_first,
        bidirectional=rnn.bidirectional,
        proj_size=rnn.proj_size,
        dtype=torch.float64,
    )
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            own = name.replace("bias_ih", "bias")
            parameter.copy_(0 * parameter if "bias_hh" in name else rnn.get_parameter(own))
    return twin


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "options", [*OPTIONS, {"batch_first": True, "num_layers": 2}, {"bidirectional": True}]
)
def test_as_torchs_lstm(options, given, steps):
    rnn = module(**options)
    twin, parts = torch_twin(rnn), rnn.num_layers * (1 + rnn.bidirectional)
    batches = [(B,)] if rnn.batch_first else [(B,), ()]
    for batch in batches:
        outer = (*batch, steps) if rnn.batch_first else (steps, *batch)
        x = torch.randn(*outer, INPUT, dtype=torch.float64, requires_grad=True)
        sizes = (P, HIDDEN) if given else ()
        states = [
            torch.randn(size, *batch, parts, dtype=torch.float64).transpose(0, -1).requires_grad_()
            for size in sizes
        ]
        results, seeds = [], None
        for one in (rnn, twin):
            y, last = one(x, tuple(states) or None)
            seeds = seeds or [torch.randn_like(t) for t in (y, *last)]
            named = dict(one.named_parameters())
            leaves = [x, *states, *named.values()]
            gradients = torch.autograd.grad((y, *last), leaves, seeds)
            names = ["x", *[f"states[{i}]" for i in range(len(states))], *named]
            results.append({"y": y, "h": last[0], "c": last[1]})
            results[-1] |= {f"d_{n}": d for n, d in zip(names, gradients, strict=True)}
        for name, found in results[0].items():
            wanted = results[1][name.replace("bias", "bias_ih")]
            torch.testing.assert_close(found, wanted, msg=lambda m, n=name: f"{n}: {m}")


class Call:
    """A call with lengths and resets, and NaN wherever nobody may read."""

    def __init__(self, rnn, kind, step=None):
        self.rnn, self.kind, self.step = rnn, kind, step or one_step
        parts = rnn.num_layers * (1 + rnn.bidirectional)
        self.widths = [rnn.heads * P, *[HIDDEN] * (len(rnn.cell.states) - 1)]
        self.padding = torch.arange(T)[:, None] >= torch.tensor(LENGTHS)
        self.x = self.draw(T, B, INPUT)
        self.states = [self.draw(parts, B, width) for width in self.widths]
        shape = {"init": None, "shared": (parts,), "rows": (parts, B), "stored": (parts, T, B)}
        size = shape[kind]
        self.values = None if size is None else [self.draw(*size, w) for w in self.widths]
        self.reset = torch.zeros(T, B, dtype=torch.bool)
        for row, steps in enumerate(RESETS):
            self.reset[steps, row] = True

    def draw(self, *size):
        return torch.randn(size, dtype=torch.float64, requires_grad=True)

    def leaves(self):
        values = self.values if self.values and self.kind != "stored" else []
        named = {"x": self.x} | dict(self.rnn.named_parameters())
        named |= {f"states[{i}]": s for i, s in enumerate(self.states)}
        return named | {f"reset_to[{i}]": v for i, v in enumerate(values)}

    def run(self):
        x, values = self.x.masked_fill(self.padding[:, :, None], NAN), self.values
        if self.kind == "stored":
            values = [v.masked_fill(~self.reset[:, :, None], NAN) for v in values]
        options = {"lengths": torch.tensor(LENGTHS), "reset": self.reset, "reset_to": values}
        return self.rnn(x, self.states, all_states=True, **options)

    def loops(self):
        rnn, x, lasts = self.rnn, self.x, []
        for layer in range(rnn.num_layers):
            outputs = []
            for end in ("", "_reverse") if rnn.bidirectional else ("",):
                index = len(lasts)
                rows = [self.row(f"_l{layer}{end}", index, row, x) for row in range(B)]
                outputs.append([torch.stack(each, 1) for each in zip(*[r[0] for r in rows])])  # noqa: B905
                lasts.append([torch.stack(each) for each in zip(*[r[1] for r in rows])])  # noqa: B905
            found = [torch.cat(each, 2) for each in zip(*outputs, strict=True)]
            x = found[0]
        names = [state.name for state in rnn.cell.states]
        last = tuple(torch.stack(each) for each in zip(*lasts, strict=True))
        return x, last, dict(zip(names, found, strict=True))

    def row(self, end, index, row, x):
        rnn, length, reverse = self.rnn, LENGTHS[row], end.endswith("reverse")
        states = [s[index, row] for s in self.states]
        found = {}
        for t in reversed(range(length)) if reverse else range(length):
            at = t + 1 if reverse else t
            if at < length and self.reset[at, row]:
                states = self.value(index, row, at, states)
            states = self.step(rnn, end, x[t, row], states)
            found[t] = states
        zeros = [torch.zeros_like(s) for s in states]
        each = [found.get(t, zeros) for t in range(T)]
        return [torch.stack(s) for s in zip(*each, strict=True)], states

    def value(self, index, row, at, like):
        if self.values is None:
            specs = self.rnn.cell.states
            return [torch.full_like(s, spec.init) for s, spec in zip(like, specs, strict=True)]
        place = {"shared": (), "rows": (row,), "stored": (at, row)}[self.kind]
        found = [v[(index, *place)] for v in self.values]
        return [v.detach() for v in found] if self.kind == "stored" else found


def staged_step(rnn, end, x, states, steps):
    """One step of one row of a cell with called gates, as its paper has it."""
    cell, heads, dim = rnn.cell, rnn.heads, HIDDEN // rnn.heads
    named = {n.removesuffix(end): p for n, p in rnn.named_parameters() if n.endswith(end)}
    output, (h, *others) = cell.states[0].name, states

    def each(name, gates):
        rows = named[name].view(heads, len(gates), dim, *named[name].shape[1:])
        return dict(zip(gates, rows.unbind(1), strict=True))

    read = [p.gate for p in cell.dense_pairs if p.source == output]
    own = [p.gate for p in cell.dense_pairs if p.source != output]
    W, b = each("weight_ih", cell.input_gates), each("bias", cell.bias_gates)
    matrices = each("weight_hh", read) | (each("weight_hs", own) if own else {})

    def gate_of(name):
        def gate(value=None):
            found = W[name] @ x if name in W else x.new_zeros(heads, dim)
            found = found + b[name] if name in b else found
            if value is not None:
                found = found + (matrices[name] @ value.unsqueeze(-1)).squeeze(-1)
            return found

        return gate

    params = {p.name: named[p.name].view(heads, dim) for p in cell.params}
    constants = {c.name: c.value for c in cell.constants}
    values = [h.view(heads, P), *[s.view(heads, dim) for s in others]]
    before = dict(zip([s.name for s in cell.states], values, strict=True))
    gates = {g.name: gate_of(g.name) for g in cell.gates}
    groups = [SimpleNamespace(**group) for group in (gates, before, params, constants)]
    new = steps[cell.name](*groups)
    new = new if isinstance(new, tuple) else (new,)
    projected = named["weight_hr"].view(heads, P, dim) @ new[0].unsqueeze(-1)
    return [projected.flatten(), *[s.flatten() for s in new[1:]]]


def one_step(rnn, end, x, states):
    """One step of one row, by the words of the definition."""
    cell, heads, dim = rnn.cell, rnn.heads, HIDDEN // rnn.heads
    named = {n.removesuffix(end): p for n, p in rnn.named_parameters() if n.endswith(end)}
    values = {p.name: named[p.name] for p in cell.params}
    values |= {c.name: x.new_tensor(c.value) for c in cell.constants}
    h, *others = states
    names = [state.name for state in cell.states]
    values |= dict(zip(names[1:], [s.view(heads, dim) for s in others], strict=True))

    def rows(name, gates):
        return named[name].view(heads, len(gates), dim, *named[name].shape[1:])

    gates = {g.name: x.new_zeros(heads, dim) for g in cell.gates}
    for i, name in enumerate(cell.input_gates):
        gates[name] = gates[name] + rows("weight_ih", cell.input_gates)[:, i] @ x
    for i, pair in enumerate(cell.dense_pairs):
        matrix = rows("weight_hh", cell.dense_pairs)[:, i]
        each = torch.einsum("ndp,np->nd", matrix, h.view(heads, P))
        gates[pair.gate] = gates[pair.gate] + each
    for i, pair in enumerate(cell.diagonal_pairs):
        weights = rows("weight_hd", cell.diagonal_pairs)[:, i]
        gates[pair.gate] = gates[pair.gate] + weights * values[pair.source]
    for i, name in enumerate(cell.bias_gates):
        gates[name] = gates[name] + rows("bias", cell.bias_gates)[:, i]
    new = evaluate(cell.updates, values | gates, x)
    projected = torch.einsum("npd,nd->np", named["weight_hr"].view(heads, P, dim), new[0])
    return [projected.flatten(), *[s.flatten() for s in new[1:]]]


@pytest.mark.parametrize("kind", ["init", "shared", "rows", "stored"])
@pytest.mark.parametrize(
    ("cell", "options"),
    [
        (rnnc.cells.lstm, {"bidirectional": True, "num_layers": 2}),
        (odd, {"bidirectional": True, "heads": 2, "backend": "reference"}),
        (rnnc.cells.peephole_lstm, {"heads": 2, "num_layers": 2, "backend": "reference"}),
    ],
)
def test_lengths_and_resets(cell, options, kind):
    check_against_loops(Call(module(cell, **options), kind))


@pytest.mark.parametrize("kind", ["init", "shared", "rows", "stored"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("multiplicative_lstm", {"heads": 2, "bidirectional": True}),
        ("wmc_lstm", {"num_layers": 2}),
        ("residual_lstm", {"backend": "reference"}),
        ("deep_transition_rnn", {"heads": 2, "num_layers": 2, "backend": "reference"}),
    ],
)
def test_gates_that_multiply_something_else(name, options, kind, stage_steps):
    rnn = module(rnnc.cells.get(name), **options)
    others = sum(p.source != rnn.cell.states[0].name for p in rnn.cell.dense_pairs)
    assert rnn.weight_hs_l0.shape == (others * HIDDEN, HIDDEN // rnn.heads)
    assert rnn.weight_hh_l0.shape == ((len(rnn.cell.dense_pairs) - others) * HIDDEN, P)
    check_against_loops(Call(rnn, kind, partial(staged_step, steps=stage_steps.STEPS)))


def check_against_loops(call):
    outer = call.padding[:, :, None]
    results, named, seeds = [], call.leaves(), None
    for run in (call.run, call.loops):
        y, last, over_time = run()
        seeds = seeds or [torch.randn_like(t) for t in (y, *last, *over_time.values())]
        filled = NAN if run == call.run else 0.0
        own = [s.masked_fill(outer, filled) if len(s) == T else s for s in seeds]
        tensors = (y, *last, *over_time.values())
        gradients = torch.autograd.grad(tensors, list(named.values()), own)
        found = {"y": y} | {f"last[{i}]": s for i, s in enumerate(last)} | over_time
        results.append(found | {f"d_{n}": d for n, d in zip(named, gradients, strict=True)})
    for name, wanted in results[1].items():
        torch.testing.assert_close(results[0][name], wanted, msg=lambda m, n=name: f"{n}: {m}")


def test_no_nan_before_a_reset_survives():
    rnn = module()
    x, states = torch.randn(T, B, INPUT).double(), [torch.zeros(1, B, w).double() for w in (P, 8)]
    reset = torch.zeros(T, B, dtype=torch.bool)
    reset[0, 1] = True
    wanted = rnn(x, states, reset=reset)[0]
    dirty = [s.index_fill(1, torch.tensor([1]), NAN).requires_grad_() for s in states]
    y, _ = rnn(x, dirty, reset=reset)
    y.sum().backward()
    assert torch.equal(y, wanted)
    assert all(t.grad.isfinite().all() for t in (*dirty, *rnn.parameters()))


@pytest.mark.parametrize("options", OPTIONS)
def test_initial_values_are_states_like_others(options):
    rnn = module(odd, backend="reference", **options)
    x, parts = torch.randn(T, B, INPUT).double(), rnn.num_layers * (1 + rnn.bidirectional)
    states = [torch.full((parts, B, P), 0.5).double(), torch.full((parts, B, 8), -0.25).double()]
    for given in (x, x[:1], x[:0]):
        y, last = rnn(given)
        wanted, wanted_last = rnn(given, states)
        assert torch.equal(y, wanted)
        assert all(torch.equal(*each) for each in zip(last, wanted_last, strict=True))
    assert torch.equal(last[0], states[0])


@pytest.mark.parametrize("cell", [rnnc.cells.lstm, odd])
def test_steps(cell):
    rnn = module(cell, num_layers=2)
    x = torch.randn(3, B, INPUT).double()
    y, last = rnn(x)
    states, stepper = None, rnn.stepper(B)
    for t in range(3):
        found, states = rnn.step(x[t], states)
        torch.testing.assert_close(found, y[t])
        assert torch.equal(stepper(x[t]), found)
    for one, other, kept in zip(states, last, stepper.states, strict=True):
        torch.testing.assert_close(one, other)
        assert torch.equal(kept, one)
    stepper.load_state_dict(stepper.state_dict())
    reset = torch.tensor([True, False, False, True])
    values = [torch.randn(2, s.shape[2]).double() for s in states]
    given = [
        torch.where(reset[:, None], v[:, None], s) for v, s in zip(values, states, strict=True)
    ]
    found = rnn.step(x[0], states, reset=reset, reset_to=values)[0]
    assert torch.equal(found, rnn.step(x[0], given)[0])
    assert torch.equal(rnn.step(x[0, 0])[0], rnn.step(x[0, :1])[0][0])


def test_matrices_are_multiplied_in_float32_and_rounded_once():
    rnn = module(dtype=torch.bfloat16)
    plain = rnnc.RNN(rnnc.cells.lstm, INPUT, HIDDEN, dtype=torch.bfloat16)
    own = dict(rnn.named_parameters())
    matrix = own.pop("weight_hr_l0")
    own["weight_hh_l0"] = (own["weight_hh_l0"].float() @ matrix.float()).bfloat16()
    plain.load_state_dict(own)
    x = torch.randn(T, B, INPUT).bfloat16()
    (y, last), (wide, wanted) = rnn(x), plain(x)
    assert torch.equal(y, F.linear(wide, matrix))
    assert torch.equal(last[1], wanted[1])


@rnnc.cell
def timed(a: Gate, dt: rnnc.Input, h: State):
    """A state that is kept for a time of the caller's."""
    return tanh(a) * exp(-dt)


def test_inputs_of_the_cell():
    x, dt = torch.randn(T, B, INPUT).double(), torch.rand(T, B).double()
    rnn = module(timed, num_layers=2, backend="reference")
    h, found = torch.zeros(2, B, P).double(), []
    for t in range(T):
        y, given = x[t], []
        for layer in range(2):
            W, R, b, matrix = [
                rnn.get_parameter(f"{name}_l{layer}")
                for name in ("weight_ih", "weight_hh", "bias", "weight_hr")
            ]
            y = (torch.tanh(y @ W.T + h[layer] @ R.T + b) * torch.exp(-dt[t])[:, None]) @ matrix.T
            given.append(y)
        h = torch.stack(given)
        found.append(y)
    wanted = torch.stack(found)
    torch.testing.assert_close(rnn(x, inputs={"dt": dt})[0], wanted)
    torch.testing.assert_close(rnn(x[:1], inputs={"dt": dt[:1]})[0], wanted[:1])
    first = rnn.step(x[0], inputs={"dt": dt[0]})
    torch.testing.assert_close(first[0], wanted[0])
    torch.testing.assert_close(rnn.step(x[1], first[1], inputs={"dt": dt[1]})[0], wanted[1])


def test_under_a_compiler():
    torch._dynamo.reset()
    rnn = module(num_layers=2).float()
    call = Call(rnn, "rows")
    x, states = call.x.float(), [s.float() for s in call.states]
    options = {
        "lengths": torch.tensor(LENGTHS),
        "reset": call.reset,
        "reset_to": [v.float() for v in call.values],
    }
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    for arguments, named in [((x,), {}), ((x, states), options)]:
        results = []
        for run in (rnn, compiled):
            y, last = run(*arguments, **named)
            rnn.zero_grad()
            y.sum().backward(retain_graph=True)
            results.append([y, *last, *[p.grad for p in rnn.parameters()]])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore:rnnc has no kernels")
def test_autocast_and_transforms():
    rnn = module().float()
    x, states = torch.randn(T, B, INPUT), [torch.randn(1, B, w) for w in (P, HIDDEN)]
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = rnn(x, states)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), rnn(x, states)[0], atol=0.05, rtol=0.05)
    each = torch.func.vmap(lambda one: rnn(one)[0], in_dims=1, out_dims=1)(x)
    torch.testing.assert_close(each, rnn(x)[0])
    d_x = torch.func.jvp(lambda one: rnn(one, states)[0], (x,), (torch.ones_like(x),))[1]
    assert d_x.shape == (T, B, P)
    x.requires_grad_()
    rnn.backend = "reference"
    (first,) = torch.autograd.grad(rnn(x)[0].sum(), x, create_graph=True)
    first.square().sum().backward()
    assert x.grad.abs().sum() > 0


def test_tracers_and_tensors_without_values():
    rnn = module().float()
    x, states = torch.randn(T, B, INPUT), [torch.randn(1, B, w) for w in (P, HIDDEN)]
    traced = make_fx(lambda one, *more: rnn(one, more)[0])(x, *states)
    assert torch.equal(traced(x, *states), rnn(x, states)[0])
    exported = torch.export.export(rnn, (x,)).module()
    assert torch.equal(exported(x)[0], rnn(x)[0])
    y, last = rnn.to("meta")(x.to("meta"), [s.to("meta") for s in states])
    assert [tuple(t.shape) for t in (y, *last)] == [(T, B, P), (1, B, P), (1, B, HIDDEN)]


def test_as_a_module():
    rnn = module(heads=2, num_layers=2, dropout=0.5, proj_size=P)
    assert rnn.weight_hr_l0.shape == (2 * P, HIDDEN // 2)
    assert rnn.weight_hh_l1.shape == (4 * HIDDEN, P)
    assert rnn.weight_ih_l1.shape == (4 * HIDDEN, 2 * P)
    assert repr(rnn) == "RNN(lstm, 3, 8, heads=2, num_layers=2, dropout=0.5, proj_size=3)"
    x = torch.randn(T, B, INPUT).double()
    rnn.eval()
    for other in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        assert torch.equal(other(x)[0], rnn(x)[0])
    other = module(heads=2, num_layers=2)
    other.load_state_dict(rnn.state_dict())
    assert torch.equal(other(x)[0], rnn(x)[0])
    rnn.train()
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    rnn.reset_parameters()
    for head in rnn.weight_hr_l1.view(2, P, 4):
        torch.testing.assert_close(head @ head.T, torch.eye(P).double())
    rnnc.init.orthogonal_(rnn, "weight_hr", gain=2.0)
    head = rnn.weight_hr_l0[P:]
    torch.testing.assert_close(head @ head.T, 4 * torch.eye(P).double())


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("gru", "reads its output h in the new value of h"),
        ("indrnn", "multiplies its output h by one weight per unit, in the gate"),
        ("mc_lstm", "has no matrix that multiplies its output h"),
        ("gru_reset_first", r"reads its output h in the argument of the gate n, n\(…\)"),
        ("lem", "reads its output y in the new value of y"),
    ],
)
def test_cells_that_have_no_projection(cell, found):
    with pytest.raises(TensorError, match=found):
        rnnc.RNN(rnnc.cells.get(cell), INPUT, HIDDEN, proj_size=2)


@pytest.mark.parametrize("size", [-1, HIDDEN, 2.0, True])
def test_sizes(size):
    with pytest.raises(TensorError, match=r"(?s)proj_size.*a whole number from 0"):
        rnnc.RNN(rnnc.cells.lstm, INPUT, HIDDEN, proj_size=size)
    with pytest.raises(TensorError, match=r"(?s)states\[h\].*\(1, 4, 3\)"):
        module()(torch.zeros(T, B, INPUT).double(), [torch.zeros(1, B, HIDDEN).double()] * 2)
