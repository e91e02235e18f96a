"""Makes the calls of a case, one after the other, with a module of kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn

from ...errors import TensorError
from ...runtime.module.stepper import Stepper
from .case import CHANGES, REFUSED, Call, ModuleCase
from .make import begin, context_of, leaves_of, states_of, stepper_outputs
from .values import Tensors, load_weights, module_of, weights_of, widths_of


class Played(NamedTuple):
    """A call that was made.

    Attributes:
        call: the call.
        version: of the weights, as in `weights_of`.
        results: outputs and gradients by name, as `tensors_of` orders their axes.
        wrong: what was wrong with it, if it had to be refused and was not; else empty.
    """

    call: Call
    version: int
    results: Tensors
    wrong: str = ""


class Player:
    """A module of kernels, and what came of the calls of its case.

    Args:
        case: the case.
    """

    def __init__(self, case: ModuleCase) -> None:
        self._case, self._version = case, 0
        self._rnn = module_of(case, getattr(torch, case.dtype), case.device)
        load_weights(self._rnn, weights_of(case, self._rnn, 0))
        self._steppers: dict[tuple[int, int | None], Stepper] = {}
        self._late: Callable[[], Played] | None = None
        self.played: list[Played] = []

    def make(self, call: Call) -> None:
        """Make a call, or a change; its results go to `played`, perhaps after the next call."""
        if call.kind in CHANGES:
            self.finish()
            self._change(call)
            return
        late, self._late = self._late, None
        if call.kind in REFUSED:
            self.played.append(Played(call, self._version, {}, self._refused(call)))
        elif call.kind == "stepper":
            results = stepper_outputs(self._stepper(call), self._case, call)
            self.played.append(Played(call, self._version, results))
        else:
            backward = begin(self._rnn, self._case, call, kernels=True)
            version = self._version
            if call.mode == "late":
                self._late = lambda: Played(call, version, backward())
            else:
                self.played.append(Played(call, version, backward()))
        if late is not None:
            self.played.append(late())

    def finish(self) -> None:
        """Run the backward that is still to come."""
        if self._late is not None:
            self.played.append(self._late())
            self._late = None

    def _change(self, call: Call) -> None:
        if call.kind == "deepcopy":
            self._rnn = copy.deepcopy(self._rnn)
            self._steppers.clear()
            return
        self._version = 1 + call.values
        weights = weights_of(self._case, self._rnn, self._version)
        if call.kind == "copy_":
            load_weights(self._rnn, weights)
        elif call.kind == "load_state_dict":
            self._rnn.load_state_dict(weights)
        else:
            for name, old in dict(self._rnn.named_parameters()).items():
                new = nn.Parameter(weights[name].to(old), requires_grad=old.requires_grad)
                setattr(self._rnn, name, new)
            self._steppers.clear()  # they say that they know the former ones alone

    def _stepper(self, call: Call) -> Stepper:
        """Return a stepper of an earlier call, set to its first states, or a new one."""
        self._rnn.train(call.training)
        key = call.batch, call.values if call.states else None
        found = self._steppers.get(key)
        if found is not None:
            found.reset()
            return found
        dtype = getattr(torch, self._case.dtype)
        leaves, _ = leaves_of(self._case, call, dtype, kernels=True)
        self._steppers[key] = self._rnn.stepper(call.batch, states_of(self._case, leaves))
        return self._steppers[key]

    def _refused(self, call: Call) -> str:
        """Make a call that has to raise a TensorError; say what is wrong if it does not."""
        case, kind = self._case, call.kind
        call = replace(call, kind="forward")
        leaves = leaves_of(case, call, getattr(torch, case.dtype), kernels=True)[0]
        x, states = leaves["x"], states_of(case, leaves)
        self._rnn.train(call.training)
        try:
            with context_of(call):
                if kind == "a sequence to step":
                    self._rnn.step(x if x.ndim == 3 else x[None], states)
                elif kind == "another width":
                    self._rnn(torch.cat([x, x[..., :1]], -1), states)
                else:
                    rows = () if call.single else (call.batch,)
                    widths = widths_of(case).values()
                    self._rnn(x, [x.new_zeros(case.parts + 1, *rows, width) for width in widths])
        except TensorError:
            return ""
        return f"{kind} was not refused"
