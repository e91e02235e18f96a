"""Tensors of a call of `rnnc.RNN` as the caller gives them: checked, and with what it draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from torch import Generator, Tensor, nn

from ...cellspec.cell import CellSpec
from ..call.ragged import Ragged
from ..check.module import check_input, check_states
from ..run.draws import Sizes, cell_of_call, check_drawing, check_step, draws_of_module
from ..run.ragged import ragged_of, unweighted_of

if TYPE_CHECKING:
    from .rnn import RNN


class Given(nn.Module):
    """Part of `rnnc.RNN` that reads the tensors of its calls."""

    def _check_sequence(self, x: Any, states: Any) -> None:
        rnn = cast("RNN", self)
        layout = "(B, T, input)" if rnn.batch_first else "(T, B, input)"
        check_input(x, (2, 3), f"{layout} or (T, input)", rnn.input_size, rnn._any_weight())
        if states is not None:
            batch = () if x.ndim == 2 else (x.shape[not rnn.batch_first],)
            self._check_states(states, batch, x)

    def _check_states(self, states: Sequence[Tensor], batch: tuple[int, ...], x: Tensor) -> None:
        rnn = cast("RNN", self)
        axes = f"({'2 * ' if rnn.bidirectional else ''}num_layers, B, hidden_size)"
        shapes = [(self._sizes().parts, *batch, width) for width in rnn._widths]
        check_states(states, rnn._state_names, shapes, axes, x)

    def _ragged(self, x: Tensor, masks: tuple[Any, Any, Any]) -> Ragged | None:
        """Return lengths, resets and reset values of a call, checked; None without any."""
        rnn = cast("RNN", self)
        sizes = self._sizes().parts, rnn._widths
        return ragged_of(rnn._state_names, sizes, x, rnn.batch_first, *masks)

    def _unweighted(self, cell: CellSpec, inputs: Any, x: Tensor, axes: str) -> tuple[Tensor, ...]:
        """Return the inputs of the cell that runs, checked; `axes` are those of x but the last."""
        return unweighted_of(cell, inputs, x, axes, self._sizes())

    def _sizes(self) -> Sizes:
        """Return the sizes of what a call draws."""
        rnn = cast("RNN", self)
        parts = rnn.num_layers * (2 if rnn.bidirectional else 1)
        return Sizes(parts, rnn.heads, rnn.hidden_size // rnn.heads)

    def _sampled(
        self,
        x: Any,
        axes: str,
        inputs: Any,
        sample: bool | None,
        generator: Generator | None,
        reset: Any = None,
    ) -> tuple[CellSpec, Any]:
        """Return the cell that a call runs, and its inputs with those that it draws.

        Arguments are the caller's, and `axes` those of x but the last.
        """
        rnn, sample = cast("RNN", self), self.training if sample is None else sample
        if not isinstance(x, Tensor) or x.ndim != len(axes) + 1:
            return rnn.cell, inputs  # the checks say what is wrong
        check_drawing(sample, generator, x.device)
        cell = cell_of_call(rnn.cell, inputs, sample)
        if sample and "T" not in axes:
            check_step(cell, inputs)
        more = {"inputs": inputs, "sample": sample, "generator": generator, "reset": reset}
        return cell, self._with_draws(cell, x, axes, **more)

    def _with_draws(
        self,
        cell: CellSpec,
        x: Tensor,
        axes: str,
        *,
        inputs: Any,
        sample: bool,
        generator: Generator | None,
        reset: Any,
    ) -> Any:
        """Return inputs with those that the call draws; arguments are as in `_sampled`."""
        return draws_of_module(cell, x, axes, inputs, self._sizes(), sample, generator, reset)
