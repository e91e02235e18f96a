"""Calls of `rnnc.RNN` as the caller makes them: tensors, checked, what is drawn, and options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ...cellspec.cell import CellSpec
from ..call.layer_call import Choice
from ..call.projection import Projection
from ..call.ragged import Ragged
from ..call.settings import Settings
from ..check.module import check_input, check_states
from ..run.draws import Drawing, Sizes, cell_of_call, check_drawing, check_step, draws_of_module
from ..run.ragged import ragged_of, unweighted_of
from .parameters import Weighted


class Given(Weighted):
    """Part of `rnnc.RNN` that reads the tensors and the options of its calls."""

    def _check_sequence(self, x: Any, states: Any) -> None:
        layout = "(B, T, input)" if self.batch_first else "(T, B, input)"
        check_input(x, (2, 3), f"{layout} or (T, input)", self.input_size, self._any_weight())
        if states is not None:
            batch = () if x.ndim == 2 else (x.shape[0 if self.batch_first else 1],)
            self._check_states(states, batch, x)

    def _check_states(self, states: Sequence[Tensor], batch: tuple[int, ...], x: Tensor) -> None:
        axes = f"({'2 * ' if self.bidirectional else ''}num_layers, B, hidden_size)"
        shapes = [(self._sizes().parts, *batch, width) for width in self._widths.values()]
        check_states(states, list(self._widths), shapes, axes, x)

    def _ragged(self, x: Tensor, masks: tuple[Any, Any, Any]) -> Ragged | None:
        """Return lengths, resets and reset values of a call, checked; None without any."""
        return ragged_of(self._sizes().parts, self._widths, x, self.batch_first, masks)

    def _unweighted(self, cell: CellSpec, inputs: Any, x: Tensor, axes: str) -> tuple[Tensor, ...]:
        """Return the inputs of the cell that runs, checked; `axes` are those of x but the last."""
        return unweighted_of(cell, inputs, x, axes, self._sizes())

    def _sizes(self) -> Sizes:
        """Return the sizes of what a call draws."""
        parts = self.num_layers * (2 if self.bidirectional else 1)
        return Sizes(parts, self.heads, self.hidden_size // self.heads)

    def _sampled(self, x: Any, axes: str, drawing: Drawing) -> tuple[CellSpec, Any]:
        """Return the cell that a call on x with such axes runs, and its inputs with those drawn."""
        inputs, sample, generator, _ = drawing
        sample = self.training if sample is None else sample
        if not isinstance(x, Tensor) or x.ndim != len(axes) + 1:
            return self.cell, inputs  # the checks say what is wrong
        check_drawing(sample, generator, x.device)
        cell = cell_of_call(self.cell, inputs, sample)
        if sample and "T" not in axes:
            check_step(cell, inputs)
        return cell, self._with_draws(cell, x, axes, drawing._replace(sample=sample))

    def _with_draws(self, cell: CellSpec, x: Tensor, axes: str, drawing: Drawing) -> Any:
        """Return inputs with those that the call draws; `axes` are as in `_sampled`."""
        return draws_of_module(cell, drawing, x, axes, self._sizes())

    def _settings(self, training: bool, cell: CellSpec | None = None) -> Settings:
        """Return the settings of a call of the module's cell or its mean, in training or not."""
        dropout = self.dropout if training else 0.0
        sizes = self.num_layers, self.bidirectional, self.heads, self.hidden_size // self.heads
        choice = Choice(self.variant, self.save, self.precision)
        own = self.cell if cell is None else cell
        return Settings(own, *sizes, dropout, self.backend, choice, self.layers, self._form)

    def _projected(self, cell: CellSpec) -> Projection | None:
        """Return the projection of the cell that runs: that of the module, or its mean."""
        found = self._projection
        return found if found is None or cell is self.cell else found.mean()
