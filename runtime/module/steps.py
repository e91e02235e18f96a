"""Methods of `rnnc.RNN` that take one step at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn

from ..call.call import Tensors
from ..call.tensors import States
from ..check.module import check_input, check_states, one_direction_error, states_from
from ..run.projected import scan_projected
from ..run.ragged import reset_of_step
from ..run.ready import run_ready
from ..run.route import run_step
from ..run.unweighted import unweighted_of
from .stepper import Stepper

if TYPE_CHECKING:
    from .rnn import RNN


class Steps(nn.Module):
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
                1 where all have one value.

        `stepper` takes less time per step where no gradient is wanted.

        Returns:
            The output, (B, hidden) or (hidden), and the new states.

        Raises:
            TensorError: a tensor does not fit, or the module is bidirectional.

        A GPU has kernels of their own for a step, so `variant` and `save` do not matter here.

        Example:
            >>> import torch, rnnc
            >>> rnn = rnnc.RNN(rnnc.cells.gru, 4, 8)
            >>> y, states = rnn.step(torch.randn(2, 4))
            >>> y, states = rnn.step(torch.randn(2, 4), states)
            >>> y.shape
            torch.Size([2, 8])
        """
        rnn = cast("RNN", self)
        bare = hx is not None or isinstance(states, Tensor)
        given: Any = states_from(states, hx, len(rnn._state_names)) if bare else states
        if not (reset is None and reset_to is None):
            given = self._after_reset(x, given, reset, reset_to)
        plain = inputs is None and not rnn._takes_inputs
        known = rnn._known_calls.find_call("step", rnn, x, given) if plain else None
        if known is not None:
            (y,), last = run_ready(known)
            return y, last
        if rnn.bidirectional:
            raise one_direction_error("step")
        check_input(x, (1, 2), "(B, input) or (input)", rnn.input_size, rnn._any_weight())
        if given is not None:
            self._check_states(given, tuple(x.shape[:-1]), x)
        unweighted = () if plain else self._unweighted(inputs, x, "B" if x.ndim == 2 else "")
        if x.ndim == 1:
            given = None if given is None else [s.unsqueeze(1) for s in given]
            y, last = self._step(x.unsqueeze(0), given, self.training, unweighted)
            return y[0], tuple(s.squeeze(1) for s in last)
        return self._step(x, given, self.training, unweighted)

    def _check_states(self, states: Sequence[Tensor], batch: tuple[int, ...], x: Tensor) -> None:
        rnn = cast("RNN", self)
        count, axes = rnn.num_layers, "(num_layers, B, hidden_size)"
        count, axes = (2 * count, f"(2 * {axes[1:]}") if rnn.bidirectional else (count, axes)
        shapes = [(count, *batch, width) for width in rnn._widths]
        check_states(states, rnn._state_names, shapes, axes, x)

    def _unweighted(self, inputs: Any, x: Tensor, axes: str) -> tuple[Tensor, ...]:
        """Return the cell's inputs of a call, checked; `axes` are those of x but the last."""
        rnn = cast("RNN", self)
        dim = rnn.hidden_size // rnn.heads
        return unweighted_of(rnn.cell, inputs, x, axes, rnn.heads, dim)

    def _after_reset(
        self, x: Tensor, states: Sequence[Tensor] | None, reset: Any, reset_to: Any
    ) -> list[Tensor]:
        """Return the states before a step, after its resets."""
        rnn = cast("RNN", self)
        check_input(x, (1, 2), "(B, input) or (input)", rnn.input_size, rnn._any_weight())
        sizes = rnn.num_layers, rnn._widths
        ragged = reset_of_step(rnn._state_names, sizes, x, reset, reset_to)
        inits = [state.init for state in rnn.cell.states]
        if states is None:
            outer, own = (rnn.num_layers, *x.shape[:-1]), zip(rnn._widths, inits, strict=True)
            states = [x.new_full((*outer, width), init) for width, init in own]
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
        rnn = cast("RNN", self)
        return Stepper(rnn, batch_size, states_from(states, hx, len(rnn._state_names)))

    def _step(
        self,
        x: Tensor,
        states: Sequence[Tensor] | None,
        training: bool,
        unweighted: Sequence[Tensor] = (),
    ) -> tuple[Tensor, States]:
        """Run all layers over one step, batched."""
        rnn = cast("RNN", self)
        settings, weights = rnn._settings(training), rnn._weights_on(x.device)
        tensors = Tensors(x, tuple(states or ()), weights, None, tuple(unweighted))
        if rnn._projection is not None:
            one = tensors._replace(x=x.unsqueeze(0))
            (y,), last = scan_projected(settings, rnn._projection, one)
            return y[0], last
        remember = None
        if training == self.training:
            remember = partial(rnn._known_calls.remember_call, "step", rnn, x)
        return run_step(settings, tensors, remember)
