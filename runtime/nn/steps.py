"""Base of `rnnc.nn.LSTMCell`, `GRUCell` and `RNNCell`: a step as torch's cells take it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx import Proxy

from ..call.call import Tensors
from ..call.tensors import States
from ..grad.node import run_ready
from ..run.leaf import as_leaf
from ..run.route import run_step
from ..targets.target import Target
from .base import Kind, OnKernels, kind_of
from .own import is_strided, run_torch


class Cells(OnKernels):
    """A single step with torch's parameters."""

    batch_first = False  # as `KnownCalls` reads it
    nonlinearity: str

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Run one step, as torch's cell does.

        Args:
            input: (B, input), or (input) for one sequence.
            hx: the states before the step as torch's cell takes them; zeros by default.

        Returns:
            The new states, as torch's cell gives them.
        """
        if not torch.compiler.is_compiling():
            if torch._C._get_tracing_state() is not None:
                return run_torch(self, input, hx)
            if isinstance(input, Proxy):
                return as_leaf(cast(torch.nn.Module, self), input, hx)
        given = self._states_of(hx)
        kind = self._cell_kind()
        if kind is None or not is_strided(input) or input.ndim not in (1, 2):
            return run_torch(self, input, hx)
        if given is not None and not all(
            is_strided(state) and state.ndim == input.ndim for state in given
        ):
            return run_torch(self, input, hx)
        single = input.ndim == 1
        x, states = input, given
        if single:
            x = input.unsqueeze(0)
            states = None if given is None else [state.unsqueeze(0) for state in given]
        states = None if states is None else [state.unsqueeze(0) for state in states]
        found = self._step(kind, x, states)
        if found is None:
            return run_torch(self, input, hx)
        y, last = found
        new = (y, *[state[0] for state in last[1:]])
        return self._hx_of(tuple([state[0] for state in new]) if single else new)

    def _step(
        self, kind: Kind, x: Tensor, states: Sequence[Tensor] | None
    ) -> tuple[Tensor, States] | None:
        """Return the output and the new states, (1, B, hidden); None if no kernel serves."""
        compiled = torch.compiler.is_compiling()
        if not compiled:
            known = self._known_calls.find_call("step", self, x, states)
            if known is not None:
                (y,), last = run_ready(known)
                return y, last
        settings, weights = kind.settings(1, False, self.hidden_size, 0.0), self._weights()
        if not (compiled or x.shape[0]):
            return None
        if not self._fits(settings, x, (x.shape[0],), states, weights):
            return None
        remember = None if compiled else partial(self._known_calls.remember_call, "step", self, x)
        return run_step(settings, Tensors(x, tuple(states or ()), weights), remember)

    def _cell_kind(self) -> Kind | None:
        name = self.torch_class.__name__.removesuffix("Cell")
        return kind_of(f"RNN_{self.nonlinearity.upper()}" if name == "RNN" else name)

    def _names(self) -> list[str | None]:
        biases = ("bias_ih", "bias_hh") if self.bias else (None, None)
        return ["weight_ih", "weight_hh", *biases]

    def _kind(self, target: Target, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return the settings of the module and of torch that may change between calls."""
        sizes = self._cell_kind(), self.input_size, self.hidden_size, self.bias
        return *sizes, target.rounds(dtype, None)
