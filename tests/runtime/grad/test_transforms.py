"""Transforms of torch around a call: the reference computes them, or an error helps."""

from __future__ import annotations

import warnings

import pytest
import rnnc
import torch
import torch.autograd.forward_ad as fwd
from rnnc.errors import SecondOrderError, TransformError
from rnnc.runtime.grad import functional
from rnnc.runtime.run import route
from torch import func
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.filterwarnings("ignore")


def module(backend="auto"):
    torch.manual_seed(1)
    return rnnc.RNN(rnnc.cells.lstm, 4, 6, num_layers=2, backend=backend, dtype=torch.float64)


@pytest.fixture
def x():
    return torch.randn(5, 3, 4, dtype=torch.float64)


def weights(m):
    return {k: p.detach() for k, p in m.named_parameters()}


def tangent(m, x):
    return fwd.unpack_dual(m(fwd.make_dual(x, torch.ones_like(x)))[0]).tangent


def forward_mode_without_gradients(m, x):
    with torch.no_grad(), fwd.dual_level():
        return tangent(m, x)


def forward_mode_with_frozen_weights(m, x):
    m.requires_grad_(False)
    with fwd.dual_level():
        return tangent(m, x)


def forward_mode_of_weights(m, x):
    with fwd.dual_level():
        duals = {k: fwd.make_dual(p, p.cos()) for k, p in weights(m).items()}
        return fwd.unpack_dual(functional_call(m, duals, (x,))[0]).tangent


def forward_mode_of_scan(m, x):
    wx = torch.randn(2, 3, 1, 4, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    R = wx[:1, 0, :, :, :].expand(1, 1, 4, 4)
    with torch.no_grad(), fwd.dual_level():
        dual = fwd.make_dual(wx, torch.ones_like(wx))
        (h,), _ = rnnc.scan(rnnc.cells.elman, dual, R, backend=m.backend)
        return fwd.unpack_dual(h).tangent


def per_sample(m, x):
    def loss(p, x):
        return functional_call(m, p, (x,))[0].square().sum()

    return func.vmap(func.grad(loss), (None, 1))(weights(m), x)["weight_hh_l1"]


FOLLOWED = {
    "vmap": lambda m, x: func.vmap(lambda x: m(x)[0])(torch.stack([x, 2 * x])),
    "vmap of another axis": lambda m, x: func.vmap(lambda x: m(x)[0], 1, 1)(
        torch.stack([x, 2 * x], 1)
    ),
    "vmap of states": lambda m, x: func.vmap(lambda s: m(x, s)[0])(
        [torch.rand(3, 2, 3, 6, dtype=torch.float64) + torch.arange(3.0)[:, None, None, None]] * 2
    ),
    "vmap of lengths": lambda m, x: func.vmap(lambda n: m(x, lengths=n)[0])(
        torch.tensor([[1, 5, 2], [3, 0, 4]])
    ),
    "vmap of vmap": lambda m, x: func.vmap(func.vmap(lambda x: m(x)[0]))(
        torch.stack([x, 2 * x, 3 * x, x.cos()]).unflatten(0, (2, 2))
    ),
    "vmap of weights": lambda m, x: func.vmap(lambda p: functional_call(m, p, (x,))[0])(
        {k: torch.stack([p, 2 * p]) for k, p in weights(m).items()}
    ),
    "grad": lambda m, x: func.grad(lambda x: m(x)[0].sum())(x),
    "grad of all states": lambda m, x: func.grad(
        lambda x: m(x, all_states=True)[2]["c"].square().sum()
    )(x),
    "grad of a vmap": lambda m, x: func.grad(
        lambda x: func.vmap(lambda x: m(x)[0].square().sum())(torch.stack([x, 2 * x])).sum()
    )(x),
    "vjp": lambda m, x: func.vjp(lambda x: m(x)[0].sum(), x)[1](x.new_ones(()))[0],
    "per-sample gradients": per_sample,
    "jacrev": lambda m, x: func.jacrev(lambda x: m(x)[0].sum((0, 1)))(x),
    "step": lambda m, x: func.vmap(lambda x: m.step(x)[0])(x),
}
TRANSFORMS = {
    "jvp": lambda m, x: func.jvp(lambda x: m(x)[0], (x,), (x.cos(),))[1],
    "forward_ad under no_grad": forward_mode_without_gradients,
    "forward_ad with frozen weights": forward_mode_with_frozen_weights,
    "forward_ad of weights": forward_mode_of_weights,
    "forward_ad of scan": forward_mode_of_scan,
    "jacfwd": lambda m, x: func.jacfwd(lambda x: m(x)[0].sum((0, 1)))(x),
    "hessian": lambda m, x: func.hessian(lambda x: m(x)[0].sum())(x[:2]),
    "grad of a grad": lambda m, x: func.grad(
        lambda x: func.grad(lambda x: m(x)[0].square().sum())(x).sum()
    )(x),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_kernels_follow(name, x, monkeypatch):
    transform = FOLLOWED[name]
    m = module("reference")
    torch.manual_seed(3)
    wanted = transform(m, x)
    assert wanted.abs().max() > 0
    for backend in ("auto", "cpu"):
        m = module(backend)
        with monkeypatch.context() as patched:
            patched.setattr(route, "run_reference", lambda *_: pytest.fail("the reference"))
            torch.manual_seed(3)
            torch.testing.assert_close(transform(m, x), wanted)


def test_rows_of_a_vmap_join_the_batch(x, monkeypatch):
    seen, run = [], functional.call_op
    monkeypatch.setattr(functional, "call_op", lambda *call: seen.append(call) or run(*call))
    FOLLOWED["vmap"](module(), x)
    ((tensors, _),) = seen
    assert tensors[0].shape == (5, 6, 4)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_auto_takes_the_reference_and_kernels_by_name_are_refused(name, x):
    transform = TRANSFORMS[name]
    wanted = transform(module("reference"), x)
    assert wanted.abs().max() > 0
    torch.testing.assert_close(transform(module("auto"), x), wanted)
    with pytest.raises(TransformError, match='write:  backend="reference"'):
        transform(module("cpu"), x)


FORWARD = "forward-mode derivatives (torch.autograd.forward_ad)"


def test_it_is_said_once(x):
    rnnc.runtime.process.caller.warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        TRANSFORMS["jacfwd"](module(), x)
        TRANSFORMS["jacfwd"](module(), x)
    said = [str(w.message) for w in caught if "rnnc" in str(w.message)]
    assert said == [f"rnnc has no kernels for {FORWARD}: it runs the reference loop"]


def differentiable(m, x):
    given = x.clone().requires_grad_()
    return given, m(given)[0]


def batched(m, x, create_graph=False):
    given, y = differentiable(m, x)
    seeds = torch.stack([y.detach().cos(), y.detach().sin()])
    return torch.autograd.grad(y, given, seeds, is_grads_batched=True, create_graph=create_graph)[0]


def mapped(m, x):
    given, y = differentiable(m, x)
    seeds = torch.stack([y.detach().cos(), y.detach().sin()])
    return func.vmap(lambda s: torch.autograd.grad(y, given, s)[0])(seeds)


BACKWARDS = {
    "jacobian, vectorized": lambda m, x: torch.autograd.functional.jacobian(
        lambda x: m(x)[0].sum((0, 1)), x, vectorize=True
    ),
    "is_grads_batched": batched,
    "is_grads_batched with a graph": lambda m, x: batched(m, x, create_graph=True),
    "vmap of a backward": lambda m, x: mapped(m, x),
    "hessian": lambda m, x: torch.autograd.functional.hessian(lambda x: m(x)[0].sum(), x[:2]),
    "hvp": lambda m, x: torch.autograd.functional.hvp(lambda x: m(x)[0].sum(), x, x.cos())[1],
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_backwards_that_the_kernels_have_not(name, x):
    transform = BACKWARDS[name]
    wanted = transform(module("reference"), x)
    assert wanted.abs().max() > 0
    for backend in ("auto", "cpu"):
        with pytest.raises((TransformError, SecondOrderError), match='write:  backend="reference"'):
            transform(module(backend), x)


@pytest.mark.parametrize("mode", ["real", "pre-dispatch", "functionalized", "outer"])
def test_make_fx_traces_the_operator(mode, x):
    m = module()
    run = func.functionalize(lambda x: m(x)[0]) if mode == "functionalized" else lambda x: m(x)[0]
    graph = make_fx(run, pre_dispatch=mode == "pre-dispatch")(x)
    assert "rnnc.call" in graph.code
    other = torch.randn_like(x)
    torch.testing.assert_close(graph(other), m(other)[0])

    def gradient(x):
        with torch.enable_grad():
            given = x.detach().requires_grad_()
            return torch.autograd.grad(m(given)[0].square().sum(), given)[0]

    graph = make_fx(gradient)(x)
    assert "rnnc.call_backward" in graph.code
    torch.testing.assert_close(graph(other), gradient(other))


@pytest.mark.parametrize("gradients", [False, True])
def test_jit_trace_is_refused_and_the_reference_traced(gradients, x):
    with torch.set_grad_enabled(gradients):
        for backend in ("auto", "cpu"):
            with pytest.raises(TransformError, match=r"torch.jit.trace\n(.*\n)*.*reference"):
                torch.jit.trace(module(backend), x)
        m = module("reference")
        traced = torch.jit.trace(m, x)
        other = torch.randn_like(x)
        torch.testing.assert_close(traced(other)[0], m(other)[0])


def test_export_holds_the_operator(x):
    m = module()
    program = torch.export.export(m, (x,))
    assert "rnnc.call" in program.graph_module.code
    other = torch.randn_like(x)
    torch.testing.assert_close(program.module()(other)[0], m(other)[0])


@pytest.mark.parametrize("name", ["jvp", pytest.param("vmap", marks=pytest.mark.slow)])
def test_compiled_transforms(name, x):
    torch._dynamo.reset()
    transform = (TRANSFORMS | FOLLOWED)[name]
    wanted = transform(module("reference"), x)
    m = module()
    run = torch.compile(lambda x: transform(m, x), backend="eager")
    torch.testing.assert_close(run(x), wanted)
