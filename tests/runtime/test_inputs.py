"""Inputs that no weight multiplies, against the reference: values, every gradient, and refusals."""

import itertools

import pytest
import rnnc
import torch
from rnnc import Gate, Input, Param, State, exp, gate, relu, sigmoid, tanh
from rnnc.codegen.derive import derive


@rnnc.cell
def decayed(
    g: Gate,
    dt: Input,
    m: Input,
    w: Param,
    h: State,
    c: State,
    n: Gate = gate(input=False),
    z: Gate = gate(recurrent="diagonal"),
):
    """All that an input may be: inside of a function, and a factor of a state and of a gate."""
    h = exp(-relu(w * dt)) * h
    c = sigmoid(z) * c + m * tanh(g + n)
    return h + tanh(c) * m, c


BATCH, STEPS, HEADS, DIM = 3, 6, 2, 5
FORMS = [
    (BATCH, STEPS, HEADS, DIM),
    (BATCH, STEPS),
    (1, STEPS, 1, 1),
    (BATCH, 1, 1, 1),
    (HEADS, DIM),
    (DIM,),
    (),
]
NAMES = ["wx", "R", "R_diag", "b", "h", "c", "w", "dt", "m"]
LENGTHS = torch.tensor([STEPS, 3, 0])


def drawn(form):
    """All tensors of a call, by name; `dt` has the form."""
    generator = torch.Generator().manual_seed(len(form))

    def new(*shape, scale=1.0):
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    return {
        "wx": new(BATCH, STEPS, HEADS, DIM, 2),
        "R": new(2, HEADS, DIM, DIM, scale=0.4),
        "R_diag": new(1, HEADS, DIM, scale=0.5),
        "b": new(3, HEADS, DIM),
        "h": new(BATCH, HEADS, DIM),
        "c": new(BATCH, HEADS, DIM),
        "w": new(HEADS, DIM),
        "dt": new(*form).abs(),
        "m": new(BATCH, STEPS, 1, DIM),
    }


def ran(tensors, backend, **options):
    """The results of a call, and its gradients by name."""
    leaves = {name: t.clone().requires_grad_() for name, t in tensors.items()}
    wx, R, R_diag, b, h, c, w, dt, m = leaves.values()
    over_time, last = rnnc.scan(
        *(decayed, wx, R, b, (h, c)),
        R_diag=R_diag,
        params={"w": w},
        inputs={"m": m, "dt": dt},
        backend=backend,
        **options,
    )
    results = [t.contiguous() for t in (*over_time, *last)]
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in results]
    gradients = torch.autograd.grad(results, list(leaves.values()), seeds)
    return results, dict(zip(leaves, gradients, strict=True))


def check_same(found, wanted):
    torch.testing.assert_close(found[0], wanted[0])
    assert list(found[1]) == NAMES
    for name in NAMES:
        assert found[1][name].shape == wanted[1][name].shape, name
        torch.testing.assert_close(
            found[1][name], wanted[1][name], msg=lambda m, n=name: f"{n} {m}"
        )


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_in_both_directions(form):
    tensors = drawn(form)
    for reverse in (False, True):
        found = [ran(tensors, backend, reverse=reverse) for backend in ("cpu", "reference")]
        check_same(*found)


@pytest.mark.parametrize("reverse", [False, True])
def test_padding_never_matters(reverse):
    tensors = drawn((BATCH, STEPS))
    reset = torch.rand(BATCH, STEPS, generator=torch.Generator().manual_seed(3)) < 0.3
    masks = {"lengths": LENGTHS, "reset": reset, "reverse": reverse}
    wanted = ran(tensors, "reference", **masks)
    for name in ("wx", "dt", "m"):
        for row, length in enumerate(LENGTHS):
            tensors[name][row, length:] = torch.nan
    for backend in ("cpu", "reference"):
        found = ran(tensors, backend, **masks)
        check_same(found, wanted)
        assert not found[1]["dt"][1, 3:].any()


def test_the_operator_under_a_compiler_gives_the_same():
    tensors = drawn((BATCH, STEPS))
    torch.compiler.reset()
    compiled = torch.compile(ran, backend="aot_eager")
    check_same(compiled(tensors, "cpu"), ran(tensors, "cpu"))


def test_an_input_is_kept_as_it_lies():
    """No value of an input is stored per unit: the backward reads the caller's tensor."""
    leaves = [t.requires_grad_() for t in drawn((BATCH, STEPS)).values()]
    wx, R, R_diag, b, h, c, w, dt, m = leaves
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        inputs = {"dt": dt, "m": m}
        rnnc.scan(decayed, wx, R, b, (h, c), R_diag=R_diag, params={"w": w}, inputs=inputs)
    places = {t.data_ptr(): t.numel() for t in kept}
    assert [places[t.data_ptr()] for t in (dt, m)] == [dt.numel(), m.numel()]
    saved = derive(decayed).saved
    assert not any(word in name.split("_") for name in saved for word in ("dt", "m"))
    assert BATCH * STEPS * HEADS * DIM * len(saved) == max(places.values())


def test_packed_sequences():
    tensors = drawn((BATCH, STEPS))
    wx, R, R_diag, b, h, c, w, dt, m = (t.requires_grad_() for t in tensors.values())
    runs = torch.arange(STEPS) < LENGTHS[:, None]
    starts = torch.nn.functional.pad(LENGTHS.cumsum(0), (1, 0)).int()
    options = {"R_diag": R_diag, "params": {"w": w}}
    leaves = [wx, R, h, w, dt, m]
    found = []
    for shared in (False, True):  # a mask for all steps
        given = m[:1, :1] if shared else m
        wanted = rnnc.scan(
            *(decayed, wx, R, b, (h, c)), lengths=LENGTHS, inputs={"dt": dt, "m": given}, **options
        )
        inputs = {"dt": dt[runs], "m": given[0] if shared else m[runs]}
        packed = rnnc.scan_packed(
            *(decayed, wx[runs], R, b, (h, c)), cu_seqlens=starts, inputs=inputs, **options
        )
        found = [
            [*(s[runs] if s.ndim == 4 else s for s in wanted[0]), *wanted[1]],
            [*packed[0], *packed[1]],
        ]
        gradients = [torch.autograd.grad(sum(t.sum() for t in each), leaves) for each in found]
        torch.testing.assert_close(*found)
        torch.testing.assert_close(*gradients)
    inputs["dt"] = dt[runs][1:]
    with pytest.raises(rnnc.TensorError, match="total"):
        rnnc.scan_packed(decayed, wx[runs], R, b, cu_seqlens=starts, inputs=inputs, **options)


def modules(**options):
    torch.manual_seed(0)
    new = {"num_layers": 2, "heads": 2, "dtype": torch.float64, **options}
    rnns = [rnnc.RNN(decayed, 4, 8, backend=backend, **new) for backend in ("reference", "cpu")]
    rnns[1].load_state_dict(rnns[0].state_dict())
    return rnns


@pytest.mark.parametrize(
    ("bidirectional", "batch_first"), [(False, False), (True, False), (True, True)]
)
def test_modules(bidirectional, batch_first):
    outer = (BATCH, STEPS) if batch_first else (STEPS, BATCH)
    new = {"dtype": torch.float64}
    x, dt, m = torch.randn(*outer, 4, **new), torch.rand(outer, **new), torch.rand(*outer, 8, **new)
    dt.requires_grad_(), m.requires_grad_()
    found = []
    for rnn in modules(bidirectional=bidirectional, batch_first=batch_first):
        y, last, over_time = rnn(x, inputs={"dt": dt, "m": m}, lengths=LENGTHS, all_states=True)
        torch.testing.assert_close(rnn(x, inputs={"dt": dt, "m": m}, lengths=LENGTHS)[0], y)
        results = y, *last, *over_time.values()
        leaves = [dt, m, *rnn.parameters()]
        loss = sum(t.square().sum() for t in results)
        found.append((*results, *torch.autograd.grad(loss, leaves)))
    torch.testing.assert_close(*found)


@torch.no_grad()
def test_a_compiler_that_knows_no_size():
    torch.compiler.reset()
    _, rnn = modules(num_layers=1)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch in (BATCH, BATCH + 2):
        x = torch.randn(STEPS, batch, 4, dtype=torch.float64)
        dt, m = torch.rand(STEPS, batch), torch.rand(STEPS, batch, 8)
        inputs = {"dt": dt.double(), "m": m.double()}
        assert torch.equal(compiled(x, inputs=inputs)[0], rnn(x, inputs=inputs)[0])


@torch.no_grad()
def test_a_closed_loop_is_a_sequence():
    _, rnn = modules()
    new = {"dtype": torch.float64}
    x, dt = torch.randn(STEPS, BATCH, 4, **new), torch.rand(STEPS, BATCH, **new)
    m = torch.rand(STEPS, BATCH, 8, **new)
    y, last = rnn(x, inputs={"dt": dt, "m": m})
    states, stepper = None, rnn.stepper(BATCH)
    for t in range(STEPS):
        inputs = {"dt": dt[t], "m": m[t].view(BATCH, 2, 4)}
        out, states = rnn.step(x[t], states, inputs=inputs)
        torch.testing.assert_close(out, y[t])
        assert torch.equal(stepper(x[t], inputs=inputs), out)
    torch.testing.assert_close(states, last)
    one = {"dt": dt[:, 0], "m": m[:, 0]}
    torch.testing.assert_close(rnn(x[:, 0], inputs=one)[0], y[:, 0])
    first = rnn.step(x[0, 0], inputs={"dt": dt[0, 0], "m": m[0, 0]})[0]
    torch.testing.assert_close(first, y[0, 0])


def test_refusals():
    wx, weights = torch.randn(2, 5, 1, 3, 2), {"R": torch.randn(2, 1, 3, 3)}
    weights |= {"R_diag": torch.randn(1, 1, 3), "params": {"w": torch.randn(1, 3)}}
    dt, m = torch.rand(2, 5), torch.rand(2, 5, 1, 3)
    rnn, x = rnnc.RNN(decayed, 4, 3), torch.randn(5, 2, 4)
    for wrong, word in [
        (None, "a dict with a tensor for each of"),
        ({"dt": dt}, "'m'"),
        ({"dt": dt, "m": m, "k": m}, "'k'"),
        ([dt, m], "a list"),
        ({"dt": dt.T, "m": m}, "shape (5, 2)"),
        ({"dt": dt.double(), "m": m}, "dtype torch.float64"),
        ({"dt": dt.to("meta"), "m": m}, "device meta"),
        ({"dt": 1.0, "m": m}, "a float"),
        ({"dt": m[..., None], "m": m}, "shape (2, 5, 1, 3, 1)"),
    ]:
        with pytest.raises(rnnc.TensorError) as error:
            rnnc.scan(decayed, wx, inputs=wrong, **weights)
        assert word in str(error.value)
        if isinstance(wrong, dict) and len(wrong) == 2:
            wrong = {name: t if name == "dt" else t[:, :, 0] for name, t in wrong.items()}
            wrong = {n: t.transpose(0, 1) if hasattr(t, "mT") else t for n, t in wrong.items()}
        with pytest.raises(rnnc.TensorError):
            rnn(x, inputs=wrong)
    for call in (
        lambda: rnnc.scan(rnnc.cells.elman, wx[..., :1], weights["R"][:1], inputs={"dt": dt}),
        lambda: rnnc.RNN(rnnc.cells.gru, 4, 3)(x, inputs={"dt": dt.T}),
        lambda: rnnc.RNN(rnnc.cells.gru, 4, 3).step(x[0], inputs={"dt": dt[:, 0]}),
    ):
        with pytest.raises(rnnc.TensorError, match="has no Input"):
            call()


def test_mixed_precision():
    rnn = rnnc.RNN(decayed, 4, 8)
    x, inputs = torch.randn(5, 2, 4), {"dt": torch.rand(5, 2), "m": torch.rand(5, 2, 8)}
    wanted = rnn(x, inputs=inputs)[0]
    with torch.autocast("cpu", torch.bfloat16):
        found = rnn(x, inputs=inputs)[0]
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), wanted, rtol=0.05, atol=0.05)


@rnnc.cell
def clocked(g: Gate, h: State, t: Input, rest: Input):
    """A phase from a time stamp in two parts."""
    return tanh(g) + rnnc.cos(t + rest)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)], ids=str)
def test_a_module_of_two_bytes_rounds_a_time_stamp_unless_it_comes_in_two_parts(dtype, bits):
    rnn = rnnc.RNN(clocked, 4, 8)
    x, stamps = torch.randn(5, 2, 4), 5001 + torch.arange(10.0).view(5, 2)
    wanted = rnn(x, inputs={"t": stamps, "rest": 0 * stamps})[0]
    half, x = rnn.to(dtype), x.to(dtype)
    with pytest.raises(rnnc.TensorError, match=f"keeps {bits} bits"):
        half(x, inputs={"t": stamps, "rest": stamps})
    t = stamps.to(dtype)
    rest = (stamps - t).to(dtype)
    found = half(x, inputs={"t": t, "rest": rest})[0]
    torch.testing.assert_close(found.float(), wanted, rtol=0.05, atol=0.05)


def test_a_cell_with_inputs_is_a_value():
    again = rnnc.Cell.from_json(decayed.to_json())
    assert again == decayed
    assert again.fingerprint == decayed.fingerprint
    assert [i.name for i in again.inputs] == ["dt", "m"]
    assert r"\mathrm{dt}_t" in decayed.latex()
    for cell in rnnc.cells.lstm, rnnc.cells.gru:
        assert "inputs" not in cell.to_json()
    found = itertools.chain.from_iterable(s.free_symbols for s in decayed.updates)
    assert {"dt", "m"} <= {s.name for s in found}


def test_an_input_has_no_default_and_is_used():
    def with_default(g: Gate, h: State, dt: Input = 1.0):
        return dt * tanh(g)

    def unused(g: Gate, dt: Input, h: State):
        return tanh(g)

    for function, word in ((with_default, "no default"), (unused, "every input")):
        with pytest.raises(rnnc.CellError, match=word):
            rnnc.cell(function)
