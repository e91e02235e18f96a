"""Alternating plans: a product and a pointwise map each step, in CUDA graphs."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ....cellspec.cell import CellSpec
from ....codegen.cuda.alternating.plan import AlternatingPlan
from ...program.ops import Addressed, Name, Running, View
from ...program.recorder import Recorder, issue
from ..driver.streams import current_stream
from ..launch import CallSizes, Launcher, fields_text
from ..memory import Kept
from .work import Work

_works: Kept[Work] = Kept()


class Steps(Addressed):
    """Steps of an alternating plan; `what` are cell, plan, dtype, device and sizes of the call."""

    __slots__ = ("_R", "_struct", "steps", "what")

    def __init__(
        self, what: tuple[Any, ...], arguments: ctypes.Structure, R: Tensor | None, steps: int
    ) -> None:
        struct: Any = type(arguments)
        super().__init__(array("q", bytes(arguments)), [word for word, _ in struct.addresses])
        self.what, self._struct, self.steps = what, struct, steps
        self._R: Tensor | View | None = R

    def place(self, recorder: Recorder) -> Sequence[int]:
        """Return the slots that it uses, and take those of each run from here on."""
        slots = super().place(recorder)
        if not isinstance(self._R, Tensor):
            return slots
        self._R = recorder.view(self._R)
        return [*slots, self._R.slot]

    def text(self, name: Name) -> str:
        """Return it in words."""
        _, plan, *_ = self.what
        given = fields_text(self, self._struct, name)
        return (
            f"run {self.steps} steps of a product and a kernel, in graphs of {plan.chunk}: {given}"
        )

    def __call__(self, running: Running) -> None:
        """Run all steps on the current stream."""
        R = self._R.of(running.tensors) if isinstance(self._R, View) else self._R
        arguments = self._struct.from_buffer(self.filled(running))
        what = *self.what, running.stream
        make: Any = partial(Work, *what)
        if torch.cuda.is_current_stream_capturing():
            make(lasting=False).run(arguments, self.steps, R)
            return
        work = _works.get(what, partial(make, lasting=True))
        with work.lock:
            work.run(arguments, self.steps, R)


class AlternatingLauncher(Launcher):
    """Launcher of the steps of an alternating plan."""

    __slots__ = ("_cell", "_plan", "_sizes")

    recorded = True

    def __init__(
        self, cell: CellSpec, plan: AlternatingPlan, sizes: CallSizes, device: int
    ) -> None:
        self._cell, self._plan, self._sizes = cell, plan, sizes

    def run(self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int) -> None:
        """Run all steps of the direction on torch's current stream."""
        what = self._cell, self._plan, like.dtype, like.device, self._sizes
        stream = current_stream(like.device.index)
        issue(Steps(what, arguments, R, steps), Running(stream))
