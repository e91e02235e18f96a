"""`scan_packed` against `scan` over each sequence."""

from __future__ import annotations

import pytest
import rnnc
import torch

CELL = rnnc.cells.lstm
N, D = 2, 4


def draw(*size):
    return torch.randn(size, dtype=torch.float64, requires_grad=True)


def starts_of(lengths):
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)


@pytest.fixture
def inputs(inputs_for):
    return inputs_for(CELL, 4, 9, N, D)


def each(inputs, wx, lengths, reset, reset_to, reverse):
    over_time, last, first = [], [], 0
    for row, length in enumerate(lengths):
        own = {} if reset is None else {"reset": reset[None, first : first + length]}
        if reset_to is not None:
            own["reset_to"] = [v if v.ndim == 2 else v[row : row + 1] for v in reset_to]
        states = tuple(s[row : row + 1] for s in inputs.states)
        part = wx[None, first : first + length]
        found = rnnc.scan(
            CELL, part, inputs.R, inputs.b, states, backend="reference", reverse=reverse, **own
        )
        over_time.append([s[0] for s in found[0]])
        last.append(found[1])
        first += length
    return *(torch.cat(s) for s in zip(*over_time, strict=True)), *(
        torch.cat(s) for s in zip(*last, strict=True)
    )


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [(3, 0, 5, 1), (0, 2, 0, 0), (0, 0, 0, 0)])
def test_each_sequence(lengths, reverse, backend, inputs):
    total = sum(lengths)
    wx = draw(total, N, D, 4)
    for reset in (None, torch.rand(total) < 0.5):
        values = None if reset is None else (draw(N, D), draw(4, N, D))
        over_time, last = rnnc.scan_packed(
            CELL, wx, inputs.R, inputs.b, inputs.states, cu_seqlens=starts_of(lengths),
            reverse=reverse, reset=reset, reset_to=values, backend=backend,
        )  # fmt: skip
        wanted = each(inputs, wx, lengths, reset, values, reverse)
        seeds = [torch.randn_like(w) for w in wanted]
        leaves = [wx, inputs.R, inputs.b, *inputs.states, *(values or ())]
        got = (*over_time, *last)
        for one, other in zip(
            (*got, *gradients(got, leaves, seeds)),
            (*wanted, *gradients(wanted, leaves, seeds)),
            strict=True,
        ):
            torch.testing.assert_close(one, other)


def gradients(outputs, leaves, seeds):
    pairs = [(o, d) for o, d in zip(outputs, seeds, strict=True) if o.requires_grad]
    outputs, seeds = zip(*pairs, strict=True)
    return torch.autograd.grad(outputs, leaves, seeds, materialize_grads=True)


def test_derivatives_of_any_order():
    wx, R, starts = draw(3, 1, 2, 1), draw(1, 1, 2, 2), starts_of((1, 2))

    def run(wx):
        over_time, last = rnnc.scan_packed(
            rnnc.cells.elman, wx, R, cu_seqlens=starts, backend="reference", max_seqlen=3
        )
        return over_time[0].sum() + last[0].sum()

    assert torch.autograd.gradgradcheck(run, wx)
    assert torch.autograd.gradcheck(run, wx, check_forward_ad=True)


def test_under_a_compiler(inputs):
    torch._dynamo.reset()
    i, wx, starts = inputs, draw(5, N, D, 4), starts_of((2, 0, 3))

    def run(wx, starts):
        return rnnc.scan_packed(CELL, wx, i.R, i.b, cu_seqlens=starts, max_seqlen=3)

    got = torch.compile(run, fullgraph=True, backend="aot_eager")(wx, starts)
    wanted = run(wx, starts)
    assert torch.equal(got[0][0], wanted[0][0])
    assert torch.equal(
        torch.autograd.grad(got[0][0].sum(), wx)[0], torch.autograd.grad(wanted[0][0].sum(), wx)[0]
    )


def test_values_that_nobody_saw_are_clamped(inputs, monkeypatch):
    """As on a GPU, whose values the host does not read."""
    from rnnc.runtime.scan import packed

    monkeypatch.setattr(packed, "values_visible", lambda tensor: False)
    wx = draw(5, N, D, 4)
    for wrong in ([0, 3, 90], [-7, 2, 5], [4, 1, 5], [0, 1, 2], [0, 0, 0], [9, 9, 9]):
        starts = torch.tensor(wrong, dtype=torch.int32)
        (h, _), _ = rnnc.scan_packed(
            CELL, wx, inputs.R, inputs.b, cu_seqlens=starts, max_seqlen=3, backend="cpu"
        )
        (d_wx,) = torch.autograd.grad(h.sum(), wx)
        assert h.isfinite().all()
        assert d_wx.isfinite().all()


@pytest.mark.parametrize(
    ("argument", "found", "options"),
    [
        ("cu_seqlens", "a list", {"cu_seqlens": [0, 5]}),
        ("cu_seqlens", "shape (1, 2)", {"cu_seqlens": torch.tensor([[0, 5]])}),
        ("cu_seqlens", "shape (1,)", {"cu_seqlens": torch.tensor([0])}),
        ("cu_seqlens", "float32", {"cu_seqlens": torch.tensor([0.0, 5.0])}),
        ("cu_seqlens", "2 after 3", {"cu_seqlens": torch.tensor([0, 3, 2, 5])}),
        ("cu_seqlens", "4 last", {"cu_seqlens": torch.tensor([0, 4])}),
        ("cu_seqlens", "1 first", {"cu_seqlens": torch.tensor([1, 5])}),
        ("max_seqlen", "of 5", {"cu_seqlens": torch.tensor([0, 5]), "max_seqlen": 4}),
        ("max_seqlen", "a float", {"cu_seqlens": torch.tensor([0, 5]), "max_seqlen": 5.0}),
        ("max_seqlen", "None", {"cu_seqlens": torch.tensor([0, 5], device="meta")}),
    ],
)
def test_the_error_names_what_is_wrong(argument, found, options, inputs):
    with pytest.raises(rnnc.TensorError) as error:
        rnnc.scan_packed(CELL, draw(5, N, D, 4), inputs.R, **options)
    assert error.value.argument == argument
    assert found in str(error.value)


def test_the_call_is_one_node(inputs):
    """Neither gather of wx nor of the states is a node of its own, and nothing is scattered."""
    wx, starts = draw(5, N, D, 4), starts_of((2, 0, 3))
    (h, _), (last, _) = rnnc.scan_packed(CELL, wx, inputs.R, inputs.b, cu_seqlens=starts)
    assert h.grad_fn is last.grad_fn
    below = [node for node, _ in h.grad_fn.next_functions if node is not None]
    assert {node.name() for node in below} == {"torch::autograd::AccumulateGrad"}
    assert wx in [node.variable for node in below]


@pytest.mark.parametrize("save", ["gates", "states"])
def test_calls_of_a_loop_and_their_layouts(save, inputs):
    """Those that are known by now too, of other sequences; gates or units are last in memory."""
    for units_last in (False, True):
        for lengths in ((2, 0, 3), (2, 0, 3), (2, 0, 3), (0, 3, 2), (4, 0, 1)):
            wx = torch.randn(5, N, 4, D, dtype=torch.float64).transpose(2, 3)
            wx = (wx if units_last else wx.contiguous()).requires_grad_()
            leaves = [wx, inputs.R, inputs.b]
            found, _ = rnnc.scan_packed(CELL, *leaves, cu_seqlens=starts_of(lengths), save=save)
            wanted, _ = rnnc.scan_packed(
                CELL, *leaves, cu_seqlens=starts_of(lengths), backend="reference"
            )
            seeds = [torch.randn_like(state) for state in found]
            for one, other in zip(
                (*found, *gradients(found, leaves, seeds)),
                (*wanted, *gradients(wanted, leaves, seeds)),
                strict=True,
            ):
                torch.testing.assert_close(one, other)


@pytest.mark.parametrize("save", ["gates", "states"])
def test_gradients_with_a_graph_of_their_own(save, inputs):
    """A second derivative is refused as that of `scan` is, not left out."""
    wx, lengths = draw(5, N, D, 4), (2, 0, 3)
    states = [s[:3].detach().requires_grad_() for s in inputs.states]
    reset, values = torch.rand(5) < 0.5, (draw(N, D), draw(3, N, D))
    leaves = [wx, inputs.R, inputs.b, *states, *values]
    over_time, last = rnnc.scan_packed(
        CELL, wx, inputs.R, inputs.b, states, cu_seqlens=starts_of(lengths),
        reset=reset, reset_to=values, save=save,
    )  # fmt: skip
    loss = sum(s.square().sum() for s in (*over_time, *last))
    wanted = torch.autograd.grad(loss, leaves, retain_graph=True)
    found = torch.autograd.grad(loss, leaves, create_graph=True)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(rnnc.SecondOrderError):
        found[0].sum().backward()


def test_transforms_and_subclasses_see_the_gathers(inputs):
    class Own(torch.Tensor):
        """A tensor whose operations a caller follows."""

    wx, starts = torch.randn(2, 5, N, D, 4, dtype=torch.float64), starts_of((2, 0, 3))

    def loss(wx):
        (h, _), _ = rnnc.scan_packed(CELL, wx, inputs.R, inputs.b, cu_seqlens=starts, max_seqlen=3)
        return h.square().sum()

    wanted = torch.stack([torch.func.grad(loss)(each) for each in wx])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(wx), wanted)
    plain = wx[0].clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(loss(plain), plain)[0], wanted[0])
    torch.testing.assert_close(loss(wx[0].as_subclass(Own)).as_subclass(torch.Tensor), loss(wx[0]))


def test_a_gpu_replays_later_calls(simulated_gpu, monkeypatch):
    """With the gathers of both halves: the launches are those of the first call, and no more."""
    from rnnc.runtime.cuda.driver import room
    from rnnc.runtime.scan import scan

    monkeypatch.setattr(room, "is_here", lambda _: True)
    monkeypatch.setattr(scan, "_CALLS", type(scan._CALLS)())
    wx, R = torch.randn(40, 1, 64, 4).requires_grad_(), torch.randn(4, 1, 64, 64).requires_grad_()
    runs = []
    for _ in range(5):
        simulated_gpu.clear()
        (h, c), last = rnnc.scan_packed(
            CELL, wx, R, cu_seqlens=starts_of((9, 0, 17, 14)), backend="simulated"
        )
        torch.autograd.grad((h, c, *last), (wx, R), [torch.ones_like(s) for s in (h, c, *last)])
        runs.append(list(simulated_gpu))
    assert runs[0]
    assert all(run == runs[0] for run in runs)
    (entry,) = scan._CALLS._entries.values()
    known = list(entry.replays._known.values())
    assert len(known) == 2
    assert all(each.program is not None for each in known)
