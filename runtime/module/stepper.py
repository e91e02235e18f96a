"""`rnnc.Stepper`: a module from step to step, with its states kept in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from ...errors import TensorError
from ..call.call import Tensors
from ..call.plain import without_autocast
from ..call.tensors import Stepped
from ..check.module import check_size, one_direction_error
from ..check.tensor import check_like, check_same, check_tensor, shape_error
from ..grad.layers.forward import forward_layers
from ..run.draws import Drawing
from ..run.route import direct_call, direct_step, input_of_step
from ..targets.registry import TARGETS
from .watched import Watched

if TYPE_CHECKING:
    from .rnn import RNN


class Stepper:
    """A module that goes from step to step, for inference: `rnnc.RNN.stepper` makes one.

    It keeps the states. On a GPU all layers of a step are one CUDA graph, which reads the module's
    parameters where they are: it sees what is changed in place. It reads flags of torch and options
    of the module when it is made. It computes in the dtype of the parameters, under
    `torch.autocast` too, drops no features, and takes the means of inputs that calls would draw.
    Its results are those of `RNN.step`, bit for bit.

    A call launches on torch's current stream. Calls on several streams have to be put in an order
    by the caller.

    Example:
        >>> import torch, rnnc
        >>> rnn = rnnc.RNN(rnnc.cells.gru, 4, 8)
        >>> stepper = rnn.stepper(batch_size=2)
        >>> x = torch.randn(2, 4)
        >>> y = stepper(x).clone()                           # the next call overwrites the buffer
        >>> torch.equal(y, rnn.step(x)[0])
        True
        >>> stepper.reset(torch.tensor([True, False]))       # the first sequence begins anew
        >>> [s.shape for s in stepper.states]
        [torch.Size([1, 2, 8])]
    """

    def __init__(self, rnn: RNN, batch_size: int, states: Sequence[Tensor] | None = None) -> None:
        if rnn.bidirectional:
            raise one_direction_error("stepper")
        self._rnn, batch = rnn, check_size("batch_size", batch_size)
        like = rnn._any_weight()
        like = torch.empty(0) if like is None else like
        self._dtype, self._device = like.dtype, like.device
        self._shape = torch.Size((batch, rnn.input_size))
        if self._device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise TensorError(
                "stepper",
                "a stream that captures a graph",
                "a stream that does not: a stepper captures a graph of its own",
                "rnn.stepper(...) ahead of the capture",
            )
        new = partial(torch.empty, dtype=self._dtype, device=self._device)
        if states is not None:
            rnn._check_states(states, (batch,), like)
        with torch.inference_mode(False), torch.no_grad():
            self._initial = [
                new(rnn.num_layers, batch, width).fill_(state.init)
                for width, state in zip(rnn._widths.values(), rnn.cell.states, strict=True)
            ]
            for own, given in zip(self._initial, states or (), strict=False):
                own.copy_(given)
            # Steps read one set and write the other, in turns.
            self._sets = [[own.clone() for own in self._initial] for _ in range(2)]
            self._now = 0
            self._x = new(self._shape).zero_()
            self._y = new(batch, rnn._features)
            names = [named.attribute for named in rnn._in_order if named is not None]
            self._watched = Watched(rnn, names)
            self._replays = self._captured(len(names))
            self.reset()

    def _captured(self, weights: int) -> list[Callable[[], None]] | None:
        """Return a replay of a step for each set of states; None where nothing can be captured."""
        rnn = self._rnn
        computed = rnn._projection is not None or bool(rnn._mean.inputs)
        if computed or len(self._watched) != weights:
            return None  # some weights, or all inputs of the cell, are new at every call
        given, settings = rnn._weights_on(self._device), rnn._settings(False, rnn._mean)
        x = input_of_step(settings.cell, self._x)
        staged = x is not self._x  # a sequence of one
        tensors = Tensors(x, tuple(self._sets[0]), given)
        with without_autocast(self._device.type):
            found = (direct_call if staged else direct_step)(settings, tensors)
        if found is None:
            return None
        call, (first, second) = found.entry.call, self._sets
        target = TARGETS[call.target]
        step = forward_layers if staged else target.step
        runs = [
            partial(step, call, Tensors(x, tuple(old), given), Stepped(self._y, tuple(to), None))
            for old, to in ((first, second), (second, first))
        ]
        return target.capture(self._device, runs)

    def __call__(self, x: Tensor, *, inputs: Mapping[str, Tensor] | None = None) -> Tensor:
        """Run all layers over one step, and keep the new states.

        Args:
            x: (B, input), of the dtype and on the device of the parameters.
            inputs: as in `RNN.step`, if the cell has any. Such a step is no CUDA graph.

        Returns:
            The output, (B, hidden): a buffer of the stepper that the next call overwrites.

        Raises:
            TensorError: x does not fit, or a parameter was replaced, moved, cast or sharded since
                the stepper was made.
        """
        if (
            not isinstance(x, Tensor)
            or x.shape != self._shape
            or x.dtype != self._dtype
            or x.device != self._device
        ):
            raise self._input_error(x)
        self._watched.check()
        if self._replays is None or inputs is not None:
            self._step(x, inputs)
        else:
            self._x.copy_(x.detach() if x.requires_grad else x)
            self._replays[self._now]()
            self._now = 1 - self._now
        # Autograd then finds out where it has saved the result of an earlier call.
        increment_version(self._y)
        return self._y

    def _step(self, x: Tensor, inputs: Mapping[str, Tensor] | None) -> None:
        """Run a step without a graph."""
        states = self._sets[self._now]
        with torch.no_grad(), without_autocast(self._device.type):
            rnn, cell = self._rnn, self._rnn.cell
            if rnn._draws:
                cell, inputs = rnn._sampled(x, "B", Drawing(inputs, False, None))
            plain = inputs is None and not cell.inputs
            unweighted = () if plain else rnn._unweighted(cell, inputs, x, "B")
            given = Tensors(x.detach(), tuple(states), (), None, unweighted)
            y, last = rnn._step(given, False, cell)
            for own, new in zip((self._y, *states), (y, *last), strict=True):
                own.copy_(new)

    def _input_error(self, x: Any) -> TensorError:
        wanted = f"{tuple(self._shape)}, (batch_size, input)"
        check_tensor("x", x, wanted)
        if x.shape == self._shape:
            with without_autocast(self._device.type):
                check_same("x", x, "the stepper", self._x)
        return shape_error("x", x, wanted, "rnn.stepper(...) for another batch size")

    @property
    def states(self) -> tuple[Tensor, ...]:
        """States now, (num_layers, B, hidden) each: buffers that calls overwrite."""
        return tuple(self._sets[self._now])

    def reset(self, mask: Tensor | None = None) -> None:
        """Set sequences back to the states that the stepper was made with.

        Args:
            mask: (B,), of bool and on the device of the stepper: which sequences; None for all.

        Raises:
            TensorError: the mask does not fit.
        """
        pairs = zip(self._sets[self._now], self._initial, strict=True)
        if mask is None:
            with torch.no_grad():
                for state, initial in pairs:
                    state.copy_(initial)
            return
        batch = self._shape[0]
        check_tensor("mask", mask, f"({batch},)")
        if mask.shape != (batch,) or mask.dtype != torch.bool or mask.device != self._device:
            raise TensorError(
                "mask",
                f"shape {tuple(mask.shape)}, {mask.dtype}, on {mask.device}",
                f"shape ({batch},), torch.bool, on {self._device}",
                f"torch.zeros({batch}, dtype=torch.bool, device={str(self._device)!r})",
            )
        rows = mask.view(1, batch, 1)
        with torch.no_grad():
            for state, initial in pairs:
                torch.where(rows, initial, state, out=state)

    def state_dict(self) -> dict[str, Tensor]:
        """Return a copy of each state, (num_layers, B, hidden), by name."""
        names = [state.name for state in self._rnn.cell.states]
        return {name: own.clone() for name, own in zip(names, self.states, strict=True)}

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> None:
        """Take over states that `state_dict` gave.

        Args:
            state_dict: each state by name; it may be on another device.

        Raises:
            TensorError: a state is missing or unknown, or has another shape or dtype.
        """
        names = [state.name for state in self._rnn.cell.states]
        if set(state_dict) != set(names):
            raise TensorError(
                "state_dict",
                f"the states {', '.join(state_dict) or 'none'}",
                f"those of {self._rnn.cell.name}: {', '.join(names)}",
                "what Stepper.state_dict() of the same cell gave",
            )
        pairs, axes = list(zip(names, self.states, strict=True)), "(num_layers, B, hidden_size)"
        for name, own in pairs:
            shape = tuple(own.shape)
            found = state_dict[name]
            other = own.to(found.device) if isinstance(found, Tensor) else own
            check_like(f"state_dict[{name!r}]", found, shape, axes, "the stepper", other)
        with torch.no_grad():
            for name, own in pairs:
                own.copy_(state_dict[name])

    def __repr__(self) -> str:
        graph = "no graph" if self._replays is None else "a CUDA graph"
        return f"Stepper({self._rnn.cell.name}, batch_size={self._shape[0]}, {graph})"
