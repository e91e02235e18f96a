"""Calls that time plans: random inputs of a size, on which every plan of it runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ...codegen.cuda.kernel_plan import KernelPlan
from ..call.tensors import Forward, ScanInputs, saved_of
from ..store.tuned import Asked
from . import kernels
from .launch import CallSizes, Launcher
from .prepared import Prepared, prepare

# Times a function that launches kernels, and may call it any number of times.
Clock = Callable[[Callable[[], None]], float]


class TrialCall:
    """Inputs of a size, and a forward and a backward over `most_steps` of them by any plan."""

    def __init__(self, asked: Asked, device: torch.device, most_steps: int) -> None:
        cell, shape = asked.cell, asked.shape
        self.steps = min(shape.steps, most_steps)
        self._cell, self._again = cell, asked.save == "states"
        heads, dim = shape.heads, shape.head_dim
        self._device, self._sizes = device, CallSizes(shape.batch, heads, dim)
        generator = torch.Generator(device).manual_seed(0)

        def draw(*size: int, scale: float = 1.0) -> Tensor:
            drawn = torch.randn(size, generator=generator, device=device)
            return (scale * drawn).to(getattr(torch, shape.dtype))

        dense, diagonal = len(cell.dense_pairs), len(cell.diagonal_pairs)
        self._inputs = ScanInputs(
            wx=draw(self.steps, shape.batch, heads, dim, len(cell.input_gates)).transpose(0, 1),
            R=draw(dense, heads, dim, dim, scale=0.5 / dim**0.5) if dense else None,
            b=draw(len(cell.bias_gates), heads, dim) if cell.bias_gates else None,
            initial_states=[draw(shape.batch, heads, dim, scale=0.0) + s.init for s in cell.states],
            R_diag=draw(diagonal, heads, dim, scale=0.5) if diagonal else None,
            params=[draw(heads, dim, scale=0.0) + p.init for p in cell.params],
            unweighted=[draw(shape.batch, self.steps, 1, 1) for _ in cell.inputs],
        )
        self._d_output = draw(self.steps, shape.batch, heads, dim)

    def forward(self, plan: KernelPlan) -> Forward:
        """Run the forward of a call by a plan of it."""
        return kernels.forward(self._prepared(plan), self._inputs)

    def backward(self, plan: KernelPlan, done: Forward) -> None:
        """Run the backward of a call by a plan of it, after a forward by any plan."""
        self._backward(self._prepared(plan), done)

    def launches(self, plan: KernelPlan, done: Forward, clock: Clock) -> float:
        """Return the clock's time of the launches of one direction, which follows `done`, alone."""
        ready = self._prepared(plan)
        clocked = _Clocked(ready.launcher, clock)
        ready = replace(ready, launcher=clocked)
        if plan.direction == "forward":
            kernels.forward(ready, self._inputs)
        else:
            self._backward(ready, done)
        return clocked.found

    def _prepared(self, plan: KernelPlan) -> Prepared:
        return prepare(self._cell, plan, self._sizes, self._device.index)

    def _backward(self, ready: Prepared, done: Forward) -> None:
        others = [None] * (len(done.last) - 1)
        saved = saved_of(self._inputs, done, self._again)
        given = [self._d_output, *others], [None, *others]
        kernels.backward(ready, kernels.backward_parts(ready, saved, *given))


class _Clocked(Launcher):
    """Launcher whose launches a clock times."""

    __slots__ = ("_clock", "_launcher", "found")

    def __init__(self, launcher: Launcher, clock: Clock) -> None:
        self._launcher, self._clock = launcher, clock
        self.found = 0.0

    def matrix(self, R: Tensor | None) -> Tensor | None:
        """Return R as the kernels read it."""
        return self._launcher.matrix(R)

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Let the clock run all steps of the direction, as often as it wants."""
        self.found = self._clock(lambda: self._launcher.run(arguments, R, like, steps))
