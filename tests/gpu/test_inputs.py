"""Inputs that no weight multiplies on a GPU, against torch's loop in float64."""

from __future__ import annotations

import pytest
import rnnc
import torch
from rnnc import Gate, Input, Param, State, exp, gate, relu, sigmoid, tanh

NAN = float("nan")
DTYPES = ("float32", "bfloat16", "float16", "float64")


@rnnc.cell
def decayed(
    g: Gate,
    z: Gate,
    dt: Input,
    m: Input,
    w: Param,
    h: State,
    c: State,
    n: Gate = gate(input=False),
    k: Gate = gate(recurrent="diagonal", bias=False),
):
    """An input inside of a function, and one as a factor."""
    h = exp(-relu(w * dt)) * h
    c = sigmoid(z) * c + m * tanh(g + sigmoid(k) * n)
    return h + tanh(c) * m, c


@rnnc.cell
def gated_by_input(g: Gate, m: Input, h: State):
    """A gradient that needs nothing of the input but its value."""
    return m * tanh(g) + (1 - m) * h


@pytest.fixture
def sizes(variant):
    """B, T, N and D: several tiles of rows, and more units where several blocks share them."""
    return {"cluster": (11, 19, 2, 112), "grid": (17, 19, 1, 264)}.get(variant, (11, 19, 3, 40))


def forms(sizes):
    """What broadcasts over a call."""
    batch, steps, heads, dim = sizes
    return [
        (batch, steps, heads, dim),
        (batch, steps),
        (1, steps, heads, 1),
        (batch, 1, 1, dim),
        (heads, dim),
    ]


def drawn(cell, sizes, dtype, form):
    """All tensors of a call by name; the first input has the form, others are (B, T, 1, D)."""
    batch, steps, heads, dim = sizes

    def new(*shape, scale=1.0):
        return (scale * torch.randn(shape, device="cuda")).to(dtype)

    params = {p.name: torch.rand(heads, dim, device="cuda").to(dtype) for p in cell.params}
    found = {
        "wx": new(batch, steps, heads, dim, len(cell.input_gates)),
        "R": new(len(cell.dense_pairs), heads, dim, dim, scale=0.5 * dim**-0.5),
        "b": new(len(cell.bias_gates), heads, dim),
    }
    if cell.diagonal_pairs:
        found["R_diag"] = new(len(cell.diagonal_pairs), heads, dim, scale=0.5)
    found |= {f"param {name}": value for name, value in params.items()}
    found |= {f"state {s.name}": new(batch, heads, dim) for s in cell.states}
    shapes = [form, *[(batch, steps, 1, dim)] * (len(cell.inputs) - 1)]
    for spec, shape in zip(cell.inputs, shapes, strict=True):
        found[f"input {spec.name}"] = torch.rand(shape, device="cuda").to(dtype)
    return found


def ran(cell, tensors, seeds, backend, double=False, asked=True, **options):
    """Results and gradients by name; those of inputs only where they are asked for."""
    t = {n: (v.double() if double else v).detach() for n, v in tensors.items()}
    leaves = {n: v.requires_grad_() for n, v in t.items() if asked or not n.startswith("input ")}

    def of(kind):
        return {n.removeprefix(kind): v for n, v in t.items() if n.startswith(kind)}

    over_time, last = rnnc.scan(
        *(cell, t["wx"], t["R"], t["b"], tuple(of("state ").values())),
        R_diag=t.get("R_diag"),
        params=of("param "),
        inputs=of("input "),
        backend=backend,
        **options,
    )
    found = {}
    for state, sequence, final in zip(cell.states, over_time, last, strict=True):
        found |= {f"{state.name} over time": sequence, f"{state.name} last": final}
    given = [seeds[n].double() if double else seeds[n] for n in found]
    gradients = torch.autograd.grad(list(found.values()), list(leaves.values()), given)
    for (name, tensor), gradient in zip(leaves.items(), gradients, strict=True):
        assert gradient.shape == tensor.shape
        found[f"gradient of {name}"] = gradient
    return {name: value.detach() for name, value in found.items()}


def seeds_of(cell, sizes, dtype):
    batch, steps, heads, dim = sizes
    shapes = {}
    for s in cell.states:
        shapes[f"{s.name} over time"] = (batch, steps, heads, dim)
        shapes[f"{s.name} last"] = (batch, heads, dim)
    return {n: torch.randn(shape, device="cuda").to(dtype) for n, shape in shapes.items()}


def check(cell, tensors, seeds, errors_are_small, variant, save, **options):
    got = ran(cell, tensors, seeds, "cuda", variant=variant, save=save, precision="ieee", **options)
    for name, value in got.items():
        assert not value.isnan().any(), f"{name}: NaN"
    wanted = [ran(cell, tensors, seeds, "reference", double, **options) for double in (False, True)]
    errors_are_small(got, *wanted)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_of_plan(dtype, reverse, variant, sizes, errors_are_small, poisoned):
    if dtype == "float64" and variant != "alternating":
        pytest.skip("alternating plans alone compute in float64")
    torch.manual_seed(0)
    for number, form in enumerate(forms(sizes)):
        for cell in (decayed, gated_by_input)[: 1 + (number < 2)]:
            tensors = drawn(cell, sizes, getattr(torch, dtype), form)
            seeds = seeds_of(cell, sizes, getattr(torch, dtype))
            save = ("gates", "states")[number % 2]
            check(cell, tensors, seeds, errors_are_small, variant, save, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("save", ["gates", "states"])
def test_padding_never_matters(save, reverse, variant, sizes, errors_are_small, poisoned):
    torch.manual_seed(1)
    batch, steps, *_ = sizes
    lengths = torch.randint(0, steps + 1, (batch,), device="cuda")
    reset = torch.rand(batch, steps, device="cuda") < 0.2
    pad = torch.arange(steps, device="cuda") >= lengths[:, None]
    tensors = drawn(decayed, sizes, torch.float32, (batch, steps))
    for name in ("wx", "input dt", "input m"):
        tensors[name][pad] = NAN
    seeds = seeds_of(decayed, sizes, torch.float32)
    options = {"lengths": lengths, "reset": reset, "reverse": reverse}
    check(decayed, tensors, seeds, errors_are_small, variant, save, **options)


@pytest.mark.parametrize("save", ["gates", "states"])
def test_gradients_that_nobody_asks_for_change_no_others(save, variant, sizes, poisoned):
    torch.manual_seed(4)
    tensors = drawn(decayed, sizes, torch.bfloat16, sizes)
    seeds = seeds_of(decayed, sizes, torch.bfloat16)
    options = {"variant": variant, "save": save}
    wanted = ran(decayed, tensors, seeds, "cuda", **options)
    found = ran(decayed, tensors, seeds, "cuda", asked=False, **options)
    assert len(found) == len(wanted) - 2
    for name, value in found.items():
        torch.testing.assert_close(value, wanted[name], msg=name)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_modules(bidirectional):
    torch.manual_seed(2)
    new = {"num_layers": 2, "bidirectional": bidirectional, "device": "cuda", "heads": 2}
    rnns = [rnnc.RNN(decayed, 24, 64, backend=backend, **new) for backend in ("cuda", "reference")]
    rnns[1].load_state_dict(rnns[0].state_dict())
    rnns[0].precision = "ieee"
    x, dt = torch.randn(13, 5, 24, device="cuda"), torch.rand(13, 5, device="cuda")
    m = torch.rand(13, 5, 64, device="cuda")
    leaves = dt.requires_grad_(), m.requires_grad_()
    found = []
    for rnn in rnns:
        y, last = rnn(x, inputs={"dt": dt, "m": m})
        loss = y.square().sum() + sum(s.sum() for s in last)
        found.append((y, *last, *torch.autograd.grad(loss, [*leaves, *rnn.parameters()])))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)
    if bidirectional:
        return
    with torch.no_grad():
        states, stepper = None, rnns[0].stepper(5)
        for t in range(3):
            inputs = {"dt": dt[t], "m": m[t]}
            out, states = rnns[0].step(x[t], states, inputs=inputs)
            torch.testing.assert_close(out, found[0][0][t], rtol=1e-4, atol=1e-4)
            assert torch.equal(stepper(x[t], inputs=inputs), out)


def test_compiled_calls_and_graphs(variant, sizes):
    torch.manual_seed(3)
    tensors = drawn(decayed, sizes, torch.bfloat16, sizes[:2])
    seeds = seeds_of(decayed, sizes, torch.bfloat16)
    torch.compiler.reset()
    wanted = ran(decayed, tensors, seeds, "cuda", variant=variant)
    found = torch.compile(ran)(decayed, tensors, seeds, "cuda", variant=variant)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, msg=name)

    def call():
        with torch.no_grad():
            return rnnc.scan(
                *(decayed, tensors["wx"], tensors["R"], tensors["b"]),
                R_diag=tensors["R_diag"],
                params={"w": tensors["param w"]},
                inputs={"dt": tensors["input dt"], "m": tensors["input m"]},
                variant=variant,
            )[0][0]

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call()
    tensors["input dt"].uniform_(0, 2)
    graph.replay()
    assert torch.equal(captured, call())
