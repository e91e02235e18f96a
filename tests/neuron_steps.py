"""One step of each neuron of the library, written from its paper in plain torch.

A step takes gates g, states s, params p and constants k, and returns the new states. Spikes have
surrogates by `torch.autograd.Function`, so that autograd gives the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

Group = SimpleNamespace
STEPS: dict[str, Callable[[Group, Group, Group, Group], Any]] = {}


def step(function: Callable[..., Any]) -> Callable[..., Any]:
    STEPS[function.__name__] = function
    return function


class Jump(torch.autograd.Function):
    """Where a condition holds 1, else 0, with a slope by hand for what it depends on."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, condition: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope)
        return condition.to(u.dtype)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, None, None]:
        return d * ctx.saved_tensors[0], None, None


def arc_spike(u: Tensor, alpha: float) -> Tensor:
    return Jump.apply(u, u > 0, alpha / 2 / (1 + (torch.pi / 2 * alpha * u) ** 2))


def triangle_spike(u: Tensor, height: float, width: float) -> Tensor:
    return Jump.apply(u, u > 0, height * (1 - u.abs() / width).relu())


def wide_spike(u: Tensor, condition: Tensor, width: float) -> Tensor:
    return Jump.apply(u, condition, width / (width + u.abs()) ** 2)


@step
def lif(g, s, p, k):
    v = k.beta * s.v + g.i - s.s.detach() * k.threshold
    return arc_spike(v - k.threshold, k.alpha), v


@step
def lif_to_zero(g, s, p, k):
    v = k.beta * (1 - s.s.detach()) * s.v + g.i
    return arc_spike(v - k.threshold, k.alpha), v


@step
def rlif_atan(g, s, p, k):
    return lif(g, s, p, k)


@step
def rlif_fast_sigmoid(g, s, p, k):
    v = k.beta * s.v + g.i - s.s.detach() * k.threshold
    u = v - k.threshold
    return Jump.apply(u, u > 0, (1 + k.k * u.abs()) ** -2.0), v


@step
def rlif_triangle(g, s, p, k):
    v = k.beta * s.v + g.i - s.s.detach() * k.threshold
    return triangle_spike(v - k.threshold, k.gamma, 1), v


@step
def adaptive_lif(g, s, p, k):
    v = k.alpha * s.v + g.i - s.z * k.threshold
    a = k.rho * s.a + s.z
    above = v - (k.threshold + k.beta * a)
    return triangle_spike(above, k.gamma / k.threshold, k.threshold), v, a


@step
def synaptic_lif(g, s, p, k):
    syn = k.alpha * s.syn + g.i
    v = k.beta * s.v + syn - s.s.detach() * k.threshold
    return arc_spike(v - k.threshold, k.slope), syn, v


@step
def delayed_lif(g, s, p, k):
    new, v = lif(g, s, p, k)
    sent = (p.d1, new), (p.d2, s.s), (p.d3, s.s1), (p.d4, s.s2)
    return new, v, s.s, s.s1, s.s2, sum(weight * spike for weight, spike in sent)


@step
def izhikevich(g, s, p, k):
    fired = s.v > 30
    v, u = torch.where(fired, k.c, s.v), torch.where(fired, s.u + k.d, s.u)
    for _ in range(2):
        v = v + 0.5 * ((0.04 * v + 5) * v + 140 - u + g.i)
    u = u + k.a * (k.b * v - u)
    return wide_spike(v - 30, v > 30, k.width), v, u


@step
def exponential_lif(g, s, p, k):
    v = torch.where(s.v > k.peak, k.reset, s.v)
    spike_current = k.sharpness * torch.exp((v - k.onset) / k.sharpness)
    v = v + k.dt * ((k.rest - v) + spike_current + g.i) / k.tau
    return wide_spike(v - k.peak, v > k.peak, k.width), v


@step
def fitzhugh_nagumo(g, s, p, k):
    # The paper's own signs: x is down in an impulse.
    x, y = -s.x, s.y
    for _ in range(10):
        d_x, d_y = k.c * (y + x - x**3 / 3 - g.z), -(x - k.a + k.b * y) / k.c
        x, y = x + k.dt * d_x, y + k.dt * d_y
    return -x, y


@step
def ltc(g, s, p, k):
    f, tau, x = torch.sigmoid(g.g), torch.nn.functional.softplus(p.tau), s.x
    for _ in range(6):
        x = (x + k.dt * f * p.A) / (1 + k.dt * (1 / tau + f))
    return x


@step
def cfc(g, s, p, k):
    gate = torch.sigmoid(-g.f * g.t)
    return gate * torch.tanh(g.g) + (1 - gate) * torch.tanh(g.h)


@step
def hodgkin_huxley(g, s, p, k):
    def decay(x, opening, closing):
        tau = 1 / (opening + closing)
        return opening * tau + (x - opening * tau) * torch.exp(-k.dt / tau)

    v, m, h, n = s.v, s.m, s.h, s.n
    for _ in range(10):
        V = -65 - v  # the paper's: down in a spike, from 0 at rest
        m = decay(m, 0.1 * (V + 25) / (torch.exp((V + 25) / 10) - 1), 4 * torch.exp(V / 18))
        h = decay(h, 0.07 * torch.exp(V / 20), 1 / (torch.exp((V + 30) / 10) + 1))
        n = decay(n, 0.01 * (V + 10) / (torch.exp((V + 10) / 10) - 1), 0.125 * torch.exp(V / 80))
        conductances = 120 * m**3 * h, 36 * n**4, 0.3
        total = sum(conductances)
        reached = sum(a * b for a, b in zip(conductances, (-115, 12, -10.613), strict=True))
        target = (reached - g.i) / total
        v = -65 - (target + (V - target) * torch.exp(-k.dt * total))
    return wide_spike(v, (s.v <= 0) & (v > 0), k.width), v, m, h, n
