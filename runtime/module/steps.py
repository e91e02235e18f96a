"""Methods of `rnnc.RNN` that take one step at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from torch import Generator, Tensor

from ...cellspec.cell import CellSpec
from ..call.call import Tensors
from ..call.tensors import States
from ..check.module import check_input, one_direction_error, states_from
from ..grad.node import run_ready
from ..run.draws import Drawing
from ..run.known_calls import of_means
from ..run.projected.layers import scan_projected
from ..run.ragged import reset_of_step
from ..run.route import input_of_step, run_step
from .given import Given
from .stepper import Stepper

if TYPE_CHECKING:
    from .rnn import RNN


class Steps(Given):
    """Part of `rnnc.RNN` for closed loops."""

    def step(
        self,
        x: Tensor,
        states: Sequence[Tensor] | Tensor | None = None,
        *,
        hx: Sequence[Tensor] | Tensor | None = None,
        reset: Tensor | None = None,
        reset_to: Sequence[Tensor] | None = None,
        inputs: Mapping[str, Tensor] | None = None,
        sample: bool | None = None,
        generator: Generator | None = None,
    ) -> tuple[Tensor, States]:
        """Run all layers over one step: for generation, control and other closed loops.

        Args:
            x: (B, input), or (input) for one sequence.
            states: as in `forward`, for example those that the last call returned.
            hx: another name of `states`, that of torch.
            reset: (B,) of bool, or () for one sequence: whose states become `reset_to` before the
                step, whatever they hold.
            reset_to: for each state (num_layers, hidden) or (num_layers, B, hidden); by default
                each state's `init`.
            inputs: a tensor for each `Input` of the cell, by name, which every layer gets: (B,),
                (B, hidden) or (B, heads, units per head), without B for one sequence. A size may be
                1 where all have one value. An axis of layers may come first. An `Input` that is
                drawn may be left out, unless it is drawn once per sequence.
            sample: as in `forward`.
            generator: as in `forward`.

        `stepper` takes less time per step where no gradient is wanted.

        Returns:
            The output, (B, hidden) or (hidden), and the new states.

        Raises:
            TensorError: a tensor does not fit, or the module is bidirectional.

        A GPU has kernels of their own for a step, so `variant` and `save` do not matter here. A
        cell with stages or an `Input` takes those of sequences.

        Example:
            >>> import torch, rnnc
            >>> rnn = rnnc.RNN(rnnc.cells.gru, 4, 8)
            >>> y, states = rnn.step(torch.randn(2, 4))
            >>> y, states = rnn.step(torch.randn(2, 4), states)
            >>> y.shape
            torch.Size([2, 8])
        """
        bare = hx is not None or isinstance(states, Tensor)
        given: Any = states_from(states, hx, len(self._widths)) if bare else states
        if not (reset is None and reset_to is None):
            given = self._after_reset(x, given, reset, reset_to)
        cell = self.cell
        if self._draws or sample is not None or generator is not None:
            axes = "B" if isinstance(x, Tensor) and x.ndim == 2 else ""
            cell, inputs = self._sampled(x, axes, Drawing(inputs, sample, generator))
        plain = inputs is None and not cell.inputs
        kind, one = of_means("step", cell is not self.cell), input_of_step(cell, x)
        known = self._known_calls.find_call(kind, cast("RNN", self), one, given) if plain else None
        if known is not None:
            (y,), last = run_ready(known)
            return (y if one is x else y[0]), last
        if self.bidirectional:
            raise one_direction_error("step")
        check_input(x, (1, 2), "(B, input) or (input)", self.input_size, self._any_weight())
        if given is not None:
            self._check_states(given, tuple(x.shape[:-1]), x)
        axes = "B" if x.ndim == 2 else ""
        unweighted = () if plain else self._unweighted(cell, inputs, x, axes)
        tensors = Tensors(x, tuple(given or ()), (), None, unweighted)
        if x.ndim == 1:
            rows = tuple([state.unsqueeze(1) for state in tensors.states])
            tensors = tensors._replace(x=x.unsqueeze(0), states=rows)
            y, last = self._step(tensors, self.training, cell)
            return y[0], tuple(s.squeeze(1) for s in last)
        return self._step(tensors, self.training, cell)

    def _after_reset(
        self, x: Tensor, states: Sequence[Tensor] | None, reset: Any, reset_to: Any
    ) -> list[Tensor]:
        """Return the states before a step, after its resets."""
        check_input(x, (1, 2), "(B, input) or (input)", self.input_size, self._any_weight())
        ragged = reset_of_step(self.num_layers, self._widths, x, reset, reset_to)
        inits = [state.init for state in self.cell.states]
        if states is None:
            outer, own = (self.num_layers, *x.shape[:-1]), self._widths.values()
            pairs = zip(own, inits, strict=True)
            states = [x.new_full((*outer, width), init) for width, init in pairs]
        else:
            self._check_states(states, tuple(x.shape[:-1]), x)
        return ragged.selected(states, inits)

    def stepper(
        self,
        batch_size: int,
        states: Sequence[Tensor] | Tensor | None = None,
        *,
        hx: Sequence[Tensor] | Tensor | None = None,
    ) -> Stepper:
        """Return a stepper: it runs all layers from step to step, for inference.

        It keeps its states in place. On a GPU a step is one CUDA graph, which takes a fraction of
        the time of `step`.

        Args:
            batch_size: B, the sequences that it runs at once.
            states: before the first step, (num_layers, B, hidden) each; by default each state's
                `init`. `Stepper.reset` goes back to them.
            hx: another name of `states`, that of torch.

        Raises:
            TensorError: the batch size or a state does not fit, the module is bidirectional, or the
                current stream captures a graph.

        Example:
            >>> import torch, rnnc
            >>> rnn = rnnc.RNN(rnnc.cells.lstm, 4, 8, num_layers=2)
            >>> stepper = rnn.stepper(batch_size=3)
            >>> for x in torch.randn(5, 3, 4):
            ...     y = stepper(x)
            >>> y.shape
            torch.Size([3, 8])
        """
        given = states_from(states, hx, len(self._widths))
        return Stepper(cast("RNN", self), batch_size, given)

    def _step(self, given: Tensors, training: bool, cell: CellSpec) -> tuple[Tensor, States]:
        """Run all layers over one step, batched; arguments are as in `RNN._run`."""
        x, settings, own = given.x, self._settings(training, cell), self._projected(cell)
        weights = self._weights_on(x.device)
        if own is not None:
            tensors = given._replace(x=x.unsqueeze(0), weights=weights)
            (y,), last = scan_projected(settings, own, tensors)
            return y[0], last
        remember = None
        if training == self.training:
            kind, x = of_means("step", cell is not self.cell), input_of_step(cell, x)
            remember = partial(self._known_calls.remember_call, kind, cast("RNN", self), x)
        return run_step(settings, given._replace(x=x, weights=weights), remember)
