"""One step of each cell of the library that has stages, written from its paper in plain torch.

A step takes gates g, states s, params p and constants k, and returns the new states. A gate is a
function of what its matrix multiplies: `g.n(r * s.h)` is W x + b + R (r * h), `g.n()` is W x + b.
Inputs of the cell are tensors in g.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, sigmoid, tanh
from torch.nn.functional import softplus

Group = SimpleNamespace
STEPS: dict[str, Callable[[Group, Group, Group, Group], Any]] = {}


def step(function: Callable[..., Any]) -> Callable[..., Any]:
    STEPS[function.__name__] = function
    return function


def normed(*values: Tensor, eps: float = 1e-5) -> tuple[Tensor, ...]:
    """Values with mean 0 and variance 1 over the units of all of them."""
    together = torch.cat(values, -1)
    off = together - together.mean(-1, keepdim=True)
    variance = (off**2).mean(-1, keepdim=True)
    return (off / (variance + eps) ** 0.5).chunk(len(values), -1)


def hard_sigmoid(x: Tensor) -> Tensor:
    return torch.where(x < -2.5, 0.0, torch.where(x > 2.5, 1.0, x / 5 + 0.5))


@step
def gru_reset_first(g, s, p, k):
    z, r = sigmoid(g.z(s.h)), sigmoid(g.r(s.h))
    return z * s.h + (1 - z) * tanh(g.n(r * s.h))


@step
def gru_d(g, s, p, k):
    h = torch.exp(-torch.maximum(torch.zeros_like(s.h), g.decay())) * s.h
    z, r = sigmoid(g.z(h)), sigmoid(g.r(h))
    return h + z * (tanh(g.n(r * h)) - h)


@step
def gru_ode(g, s, p, k):
    z, r = sigmoid(g.z(s.h)), sigmoid(g.r(s.h))
    slope = (1 - z) * (tanh(g.g(r * s.h)) - s.h)
    return s.h + slope * g.dt


@step
def mgu(g, s, p, k):
    f = sigmoid(g.f(s.h))
    return (1 - f) * s.h + f * tanh(g.n(f * s.h))


STEPS["mgu1"] = STEPS["mgu2"] = mgu  # their f has no input, and no bias


@step
def mgu3(g, s, p, k):
    f = sigmoid(p.b_f)
    return (1 - f) * s.h + f * tanh(g.n(f * s.h))


@step
def miru1(g, s, p, k):
    return k.update * s.h + (1 - k.update) * tanh(g.n(sigmoid(g.r(s.h)) * s.h))


@step
def miru2(g, s, p, k):
    return k.update * s.h + (1 - k.update) * tanh(g.n(k.reset * s.h))


@step
def mut1(g, s, p, k):
    z, r = sigmoid(g.z()), sigmoid(g.r(s.h))
    return tanh(g.n(r * s.h) + tanh(g.x())) * z + s.h * (1 - z)


@step
def mut2(g, s, p, k):
    z, r = sigmoid(g.z(s.h)), sigmoid(g.r(s.h))
    return tanh(g.n(r * s.h)) * z + s.h * (1 - z)


@step
def mut3(g, s, p, k):
    z, r = sigmoid(g.z(tanh(s.h))), sigmoid(g.r(s.h))
    return tanh(g.n(r * s.h)) * z + s.h * (1 - z)


@step
def lem(g, s, p, k):
    dt, dt_bar = k.dt * sigmoid(g.step_z(s.y)), k.dt * sigmoid(g.step_y(s.y))
    z = s.z + dt * (tanh(g.n_z(s.y)) - s.z)
    return s.y + dt_bar * (tanh(g.n_y(z)) - s.y), z


@step
def sgu(g, s, p, k):
    z = hard_sigmoid(g.z(s.h))
    return (1 - z) * s.h + z * softplus(tanh(g.g(g.x() * s.h)) * s.h)


@step
def dsgu(g, s, p, k):
    z = hard_sigmoid(g.z(s.h))
    return (1 - z) * s.h + z * sigmoid(g.o(tanh(g.g(g.x() * s.h)) * s.h))


@step
def multiplicative_rnn(g, s, p, k):
    return tanh(g.n(g.x() * g.f(s.h)))


@step
def multiplicative_lstm(g, s, p, k):
    m = g.m_x() * g.m_h(s.h)
    c = sigmoid(g.f(m)) * s.c + sigmoid(g.i(m)) * tanh(g.z(m))
    return sigmoid(g.o(m)) * tanh(c), c


@step
def rhn(g, s, p, k):
    state = s.s
    for h, t in ((g.H1, g.T1), (g.H2, g.T2), (g.H3, g.T3)):
        transform = sigmoid(t(state))
        state = tanh(h(state)) * transform + state * (1 - transform)
    return state


@step
def deep_transition_rnn(g, s, p, k):
    return tanh(g.n(tanh(g.g(s.h))))


@step
def cfc_backbone(g, s, p, k):
    shared = 1.7159 * tanh(0.666 * g.b(s.x))
    gate = 1 / (1 + torch.exp(g.f(shared) * g.t))
    return gate * tanh(g.g(shared)) + (1 - gate) * tanh(g.h(shared))


@step
def layer_norm_rnn(g, s, p, k):
    a = g.g(s.h)
    mu, sigma = a.mean(-1, keepdim=True), (a.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    return tanh(p.gain / sigma * (a - mu) + p.shift)


@step
def layer_norm_lstm(g, s, p, k):
    from_x = normed(g.i_x(), g.f_x(), g.z_x(), g.o_x())
    from_h = normed(g.i_h(s.h), g.f_h(s.h), g.z_h(s.h), g.o_h(s.h))
    i, f, z, o = (
        a * getattr(p, f"gain_{n}_x") + b * getattr(p, f"gain_{n}_h") + getattr(p, f"b_{n}")
        for n, a, b in zip("ifzo", from_x, from_h, strict=True)
    )
    c = sigmoid(f) * s.c + sigmoid(i) * tanh(z)
    return sigmoid(o) * tanh(p.gain_c * normed(c)[0] + p.b_c), c


@step
def joint_norm_lstm(g, s, p, k):
    gates = torch.cat([gate(s.h) for gate in (g.i, g.f, g.z, g.o)], -1)
    gain = torch.cat([p.gain_i, p.gain_f, p.gain_z, p.gain_o], -1)
    bias = torch.cat([p.b_i, p.b_f, p.b_z, p.b_o], -1)
    i, f, z, o = (normed(gates)[0] * gain + bias).chunk(4, -1)
    c = sigmoid(f) * s.c + sigmoid(i) * tanh(z)
    c = normed(c)[0] * p.gain_c + p.b_c
    return sigmoid(o) * tanh(c), c


@step
def layer_norm_gru(g, s, p, k):
    (z_x, r_x), (z_h, r_h) = normed(g.z_x(), g.r_x()), normed(g.z_h(s.h), g.r_h(s.h))
    z = sigmoid(p.gain_z_x * z_x + p.gain_z_h * z_h + p.b_z)
    r = sigmoid(p.gain_r_x * r_x + p.gain_r_h * r_h + p.b_r)
    from_x = p.gain_n_x * normed(g.n_x())[0] + p.b_n
    from_h = p.gain_n_h * normed(g.n_h(s.h))[0] + p.b_m
    return (1 - z) * s.h + z * tanh(from_x + r * from_h)


@step
def layer_norm_slstm(g, s, p, k):
    i, forget = g.i(s.h), torch.log(sigmoid(g.f(s.h)))
    m = torch.where(s.n == 0, i, torch.maximum(forget + s.m, i)).detach()
    kept, added = torch.exp(forget + s.m - m), torch.exp(i - m)
    c, n = kept * s.c + added * tanh(g.z(s.h)), kept * s.n + added
    h = sigmoid(g.o(s.h)) * c / n
    return p.gain * normed(h)[0], h, c, n, m


@step
def dreamer_gru(g, s, p, k):
    r, n, u = normed(g.r(s.h), g.n(s.h), g.u(s.h), eps=1e-3)
    reset = sigmoid(r * p.gain_r + p.b_r)
    candidate = tanh(reset * (n * p.gain_n + p.b_n))
    update = sigmoid(u * p.gain_u + p.b_u - 1)
    return update * candidate + (1 - update) * s.h


@step
def block_gru(g, s, p, k):
    hid = g.hid(s.h)
    x = hid / ((hid**2).mean(-1, keepdim=True) + 1e-6).sqrt() * p.gain
    x = x * sigmoid(x)
    keep = sigmoid(g.u(x) - 1)
    return keep * tanh(sigmoid(g.r(x)) * g.c(x)) + (1 - keep) * s.h


@step
def sligru(g, s, p, k):
    n_h, z_h = normed(g.n_h(s.h), g.z_h(s.h))
    z = sigmoid(g.z() + z_h)
    return z * s.h + (1 - z) * torch.relu(g.n() + n_h)


@step
def wmc_lstm(g, s, p, k):
    i = sigmoid(g.i(s.h) + tanh(g.i_c(s.c)))
    f = sigmoid(g.f(s.h) + tanh(g.f_c(s.c)))
    c = f * s.c + i * tanh(g.z(s.h))
    return sigmoid(g.o(s.h) + tanh(g.o_c(c))) * tanh(c), c


@step
def residual_lstm(g, s, p, k):
    i, f = sigmoid(g.i(s.h) + p.p_i * s.c), sigmoid(g.f(s.h) + p.p_f * s.c)
    c = f * s.c + i * tanh(g.z(s.h))
    o = sigmoid(g.o(s.h) + p.p_o * c)
    return o * (g.m(tanh(c)) + g.x()), c


@step
def nested_lstm(g, s, p, k):
    h, x = sigmoid(g.f(s.h)) * s.c, sigmoid(g.i(s.h)) * tanh(g.z(s.h))
    i, f, o = (sigmoid(a(x) + b(h)) for a, b in ((g.i_x, g.i_h), (g.f_x, g.f_h), (g.o_x, g.o_h)))
    inner = f * s.inner + i * tanh(g.z_x(x) + g.z_h(h))
    c = o * tanh(inner)
    return sigmoid(g.o(s.h)) * tanh(c), c, inner


@step
def mogrifier_lstm(g, s, p, k):
    x, h = g.x(), s.h
    for rounds, gate in enumerate((g.q1, g.r2, g.q3, g.r4, g.q5)):
        if rounds % 2:
            h = 2 * sigmoid(gate(x)) * h
        else:
            x = 2 * sigmoid(gate(h)) * x
    i, f, o = (sigmoid(a(x) + b(h)) for a, b in ((g.i_x, g.i), (g.f_x, g.f), (g.o_x, g.o)))
    c = f * s.c + i * tanh(g.z_x(x) + g.z(h))
    return o * tanh(c), c


@step
def entity_network(g, s, p, k):
    x = g.s()
    gate = sigmoid((x * s.h).sum(-1, keepdim=True) + (x * p.w).sum(-1, keepdim=True))
    n = g.n(s.h)
    h = s.h + gate * (torch.relu(n) - p.slope * torch.relu(-n))
    return h / (h**2).sum(-1, keepdim=True).sqrt()
