"""One step of cells whose recurrence a scan can compute, from their papers in plain torch.

A step takes gates g, states s, params p and constants k, and returns the new states. States of
pairs are complex here, as in the papers.
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


def parts(state: Tensor) -> tuple[Tensor, Tensor]:
    return state.real, state.imag


@step
def lru(g: Group, s: Group, p: Group, k: Group) -> tuple[Tensor, Tensor]:
    eigenvalue = torch.exp(torch.complex(-torch.exp(p.nu), torch.exp(p.theta)))
    drive = torch.exp(p.gamma) * torch.complex(g.u, g.v)
    return parts(eigenvalue * torch.complex(s.re, s.im) + drive)


@step
def s5(g: Group, s: Group, p: Group, k: Group) -> tuple[Tensor, Tensor]:
    eigenvalue = torch.complex(p.alpha, p.omega)
    kept = torch.exp(eigenvalue * torch.exp(p.step))
    drive = (kept - 1) / eigenvalue * torch.complex(g.u, g.v)
    return parts(kept * torch.complex(s.re, s.im) + drive)


@step
def rg_lru(g: Group, s: Group, p: Group, k: Group) -> Tensor:
    a = torch.sigmoid(p.decay) ** (k.c * torch.sigmoid(g.r))
    return a * s.h + (1 - a**2) ** 0.5 * (torch.sigmoid(g.i) * g.x)


@step
def mingru_highway(g: Group, s: Group, p: Group, k: Group) -> tuple[Tensor, Tensor]:
    z, carry = torch.sigmoid(g.z), 1 - torch.sigmoid(g.p)
    h = (1 - z) * s.h + z * g.n
    return (1 - carry) * h + carry * g.x, h


@step
def gilr(g: Group, s: Group, p: Group, k: Group) -> Tensor:
    kept = torch.sigmoid(g.g)
    return kept * s.h + (1 - kept) * torch.tanh(g.i)


@step
def ema(g: Group, s: Group, p: Group, k: Group) -> Tensor:
    return torch.lerp(s.h, g.x, torch.sigmoid(p.alpha))


@step
def damped_ema(g: Group, s: Group, p: Group, k: Group) -> Tensor:
    alpha, delta = torch.sigmoid(p.alpha), torch.sigmoid(p.delta)
    return alpha * g.x + (1 - alpha * delta) * s.h


@step
def slstm_without_r(g: Group, s: Group, p: Group, k: Group) -> tuple[Tensor, ...]:
    forget = torch.log(torch.sigmoid(g.f)) + s.m
    m = torch.maximum(forget, g.i).detach()
    c = torch.exp(forget - m) * s.c + torch.exp(g.i - m) * torch.tanh(g.z)
    n = torch.exp(forget - m) * s.n + torch.exp(g.i - m)
    return torch.sigmoid(g.o) * (c / n), c, n, m
