"""Bases of the modules of `rnnc.nn`, over time and of one step: torch's arguments for kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import is_
from typing import Any, cast

import torch
from torch import Tensor
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch.fx import Proxy
from torch.nn.utils.rnn import PackedSequence

from ..call.call import Tensors
from ..call.settings import Settings
from ..call.tensors import States
from ..grad.node import run_ready
from ..run.leaf import as_leaf
from ..run.ragged import ragged_of
from ..run.route import run_call, run_step
from ..targets.target import Target
from .base import KINDS, Kind, OnKernels
from .own import (
    between_graphs,
    check_packed,
    is_strided,
    named_masks,
    run_torch,
    run_without_kernels,
)
from .packed import run_packed
from .projected import is_faster, run_projected


class Sequences(OnKernels):
    """A module over time with torch's parameters."""

    mode: str
    num_layers: int
    batch_first: bool
    dropout: float
    bidirectional: bool
    _all_weights: list[list[str]]
    _flat_weights: Any
    _flat_weights_names: list[str]
    _update_flat_weights: Callable[[], None]

    def forward(
        self,
        input: Any,
        hx: Any = None,
        *,
        lengths: Tensor | None = None,
        reset: Tensor | None = None,
        reset_to: Sequence[Tensor] | None = None,
    ) -> Any:
        """Run all layers over a sequence, as torch's module does.

        Args:
            input: (T, B, input), or (B, T, input) with `batch_first`, or (T, input) for one
                sequence, or a `PackedSequence`.
            hx: the states before the first step as torch's module takes them; zeros by default.
            lengths: as in `rnnc.RNN`, which torch's module does not have.
            reset: as in `rnnc.RNN`, likewise.
            reset_to: as in `rnnc.RNN`, likewise.

        Returns:
            The output and the states after the last step, as torch's module gives them.

        Raises:
            TensorError: lengths, resets or reset values do not fit, or no kernels serve a call that
                has them.
        """
        masks = lengths, reset, reset_to
        # Dynamo traces no method of torch's subclasses, and no sizes of packed rows. Here it stops,
        # or it would trace each function below by itself.
        packed = isinstance(input, PackedSequence)
        if packed if torch.compiler.is_dynamo_compiling() else get_eval_frame_callback():
            return between_graphs(self, input, hx, named_masks(masks))
        states = self._states_of(hx)
        if not torch.compiler.is_compiling():
            if torch._C._get_tracing_state() is not None:
                return run_without_kernels(self, input, hx, masks)
            known = self._known_calls.find_sequence(self, input, states, masks)
            if known is not None:
                (y,), last = run_ready(known)
                return (y.transpose(0, 1) if self.batch_first else y), self._hx_of(last)
            if isinstance(input, Proxy):
                module = cast(torch.nn.Module, self)
                return as_leaf(module, input, hx, **named_masks(masks))
        if packed:
            check_packed(masks)
            return run_packed(self, input, hx)
        settings, weights = self._settings(), self._weights()
        if settings is None or not is_strided(input) or input.ndim not in (2, 3):
            return run_without_kernels(self, input, hx, masks)
        single = input.ndim == 2
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        if self.proj_size and (named_masks(masks) or not is_faster(self, x, states, weights)):
            return run_without_kernels(self, input, hx, masks)
        empty = not torch.compiler.is_compiling() and 0 in input.shape
        batch = () if single else (x.shape[1],)
        if empty or not self._fits(settings, input, batch, states, weights):
            return run_without_kernels(self, input, hx, masks)
        if single and states is not None:
            states = [state.unsqueeze(1) for state in states]
        if self.proj_size:
            y, last = run_projected(settings, x, states, weights)
        else:
            widths = {state.name: self.hidden_size for state in settings.cell.states}
            parts = self.num_layers * len(settings.choices)
            ragged = ragged_of(parts, widths, input, self.batch_first, masks)
            remember = None
            if not torch.compiler.is_compiling():
                remember = partial(self._known_calls.remember_call, "sequence", self, x)
            tensors = Tensors(x, tuple(states or ()), weights, ragged)
            (y,), last = run_call(settings, tensors, remember=remember)
        if single:
            return y.squeeze(1), self._hx_of(tuple([state.squeeze(1) for state in last]))
        return (y.transpose(0, 1) if self.batch_first else y), self._hx_of(last)

    def _settings(self) -> Settings | None:
        """Return the settings of a call, without its weights; None if there is no such cell."""
        kind = self._cell_kind()
        if kind is None:
            return None
        sizes = self.num_layers, bool(self.bidirectional), self.hidden_size
        return kind.settings(*sizes, float(self._dropout))

    def _cell_kind(self) -> Kind | None:
        return KINDS.get(self.mode)

    def _names(self) -> list[str | None]:
        found: list[str | None] = []
        for names in self._all_weights:
            biases = names[2:4] if self.bias else (None, None)
            projection = names[-1:] if self.proj_size else ()
            found += [*names[:2], *biases, *projection]
        return found

    def _weights(self) -> list[Tensor | None]:
        flat: Any = self.__dict__.get("_flat_weights")
        if flat is None or torch.compiler.is_compiling():
            return super()._weights()
        # Torch's own forward reads this list. Callers may change it, and torch brings it up to date
        # with parametrized weights, which it computes more than once for a call.
        names, set_by_hand = self._flat_weights_names, self.__dict__
        own = [self._parameters.get(name, set_by_hand.get(name)) for name in names]
        if len(own) != len(flat) or not all(map(is_, own, flat)):
            self._update_flat_weights()
            flat = self._flat_weights
        by_name = dict(zip(names, flat, strict=False))
        return [None if name is None else by_name.get(name) for name in self._names()]

    def _kind(self, target: Target, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return the settings of the module and of torch that may change between calls."""
        sizes = self.input_size, self.hidden_size, self.num_layers, self.bidirectional
        return (
            self.mode,
            sizes,
            self.bias,
            self.proj_size,
            self._dropout,
            target.rounds(dtype, None),
            tuple(map(id, self.__dict__.get("_flat_weights", ()))),
        )

    @property
    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def flatten_parameters(self) -> None:
        """Does nothing: the kernels read parameters where they are."""


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
        given, axes = self._states_of(hx), input.ndim if is_strided(input) else 0
        fits = all(is_strided(state) and state.ndim == axes for state in given or ())
        found, single = None, axes == 1
        if fits and axes in (1, 2):
            x = input.unsqueeze(0) if single else input
            states = None if given is None else [state.unsqueeze(0) for state in given]
            if single and states is not None:
                states = [state.unsqueeze(0) for state in states]
            found = self._step(x, states)
        if found is None:
            return run_torch(self, input, hx)
        y, last = found
        new = (y, *[state[0] for state in last[1:]])
        return self._hx_of(tuple([state[0] for state in new]) if single else new)

    def _step(self, x: Tensor, states: Sequence[Tensor] | None) -> tuple[Tensor, States] | None:
        """Return the output and the new states, (1, B, hidden); None if no kernel serves."""
        compiled = torch.compiler.is_compiling()
        if not compiled:
            known = self._known_calls.find_call("step", self, x, states)
            if known is not None:
                (y,), last = run_ready(known)
                return y, last
        kind = self._cell_kind()
        if kind is None or not (compiled or x.shape[0]):
            return None
        settings, weights = kind.settings(1, False, self.hidden_size, 0.0), self._weights()
        if not self._fits(settings, x, (x.shape[0],), states, weights):
            return None
        remember = None if compiled else partial(self._known_calls.remember_call, "step", self, x)
        return run_step(settings, Tensors(x, tuple(states or ()), weights), remember)

    def _cell_kind(self) -> Kind | None:
        name = self.torch_class.__name__.removesuffix("Cell")
        return KINDS.get(f"RNN_{self.nonlinearity.upper()}" if name == "RNN" else name)

    def _names(self) -> list[str | None]:
        biases = ("bias_ih", "bias_hh") if self.bias else (None, None)
        return ["weight_ih", "weight_hh", *biases]

    def _kind(self, target: Target, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return the settings of the module and of torch that may change between calls."""
        sizes = self._cell_kind(), self.input_size, self.hidden_size, self.bias
        return *sizes, target.rounds(dtype, None)
