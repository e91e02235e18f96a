"""`SequenceParallel`: each rank has some steps outside of the module, and some heads inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Shard

from ...errors import TensorError
from ..call.call import Tensors
from ..call.ragged import Ragged
from ..call.settings import Asked, Settings, one_direction
from ..call.tensors import States, inputs_at
from ..check.masks import check_lengths
from ..module.rnn import RNN
from ..run.by_layer import input_share
from ..run.route import run_call
from .exchange import Steps, replicated
from .parallel import Parallel, local, of_layer
from .shards import SpreadHeads


class Sequential(Parallel):
    """An `rnnc.RNN` whose ranks have some steps each outside of it, and some heads inside."""

    style = "SequenceParallel"
    directions_apart = True
    _options: SequenceParallel

    @classmethod
    def check(cls, module: RNN) -> None:
        """Raise a `TensorError` for a module with a projection."""
        if module.proj_size:
            found = f"proj_size={module.proj_size}"
            raise TensorError(cls.style, found, "a module without it", "HeadwiseParallel")

    def step(self, *args: Any, **options: Any) -> Any:
        """Raise a `TensorError`: a single step cannot be spread over ranks."""
        write = "HeadwiseParallel, or a module of one process with the weights of a checkpoint"
        raise TensorError("step", "a single step of SequenceParallel", "a sequence", write)

    def _facts_of(self, x: Tensor) -> dict[str, Any]:
        facts = super()._facts_of(x)
        if self._options.uneven and not isinstance(x, DTensor):
            time = 1 if x.ndim == 3 and self.batch_first else 0
            facts["the shape of x"] = tuple(s for i, s in enumerate(x.shape) if i != time)
        return facts

    def _ragged(self, x: Tensor, masks: tuple[Any, Any, Any]) -> Ragged | None:
        """Return lengths of all ranks' steps, and resets of this rank's."""
        lengths, *rest = masks
        found = super()._ragged(x, (None, *rest))
        if lengths is None:
            return found
        batch = 1 if x.ndim == 2 else x.shape[0 if self.batch_first else 1]
        check_lengths(lengths, batch, 2**62, () if x.ndim == 2 else (batch,))
        given = Ragged(None, None, None) if found is None else found
        return given._replace(lengths=lengths.view(batch))

    def _entered(self, whole: Tensors) -> tuple[Tensors, Steps]:
        x, steps = self._own_steps(whole.x)
        ragged = whole.ragged
        if ragged is not None:
            x, ragged = self._of_all_steps(x, ragged, steps)
        own = (u.expand(*u.shape[:-3], steps.own, *u.shape[-2:]) for u in whole.unweighted)
        in_time = (steps.gathered(u.movedim(-3, 0)).movedim(0, -3) for u in own)
        return whole._replace(x=x, ragged=ragged, unweighted=self._own_heads(in_time)), steps

    def _run_layer(
        self, settings: Settings, tensors: Tensors, every: bool, steps: Steps | None
    ) -> tuple[list[Tensor], States]:
        assert steps is not None
        each = len(tensors.weights) // len(settings.choices)
        outputs, lasts = [], []
        for direction, choice in enumerate(settings.choices):
            own: Any = tensors.weights[direction * each : (direction + 1) * each]
            wx = self._input(settings, tensors.x, own[0], steps)
            shape = wx.shape[0], *wx.shape[2:4]
            given = tuple([state[direction].reshape(shape) for state in tensors.states])
            flat = self._own_form.weights([None, *map(local, own[1:])], 1)[0].flat()
            rows = of_layer(tensors.ragged, slice(direction, direction + 1))
            inputs = tuple(inputs_at(tensors.unweighted, direction))
            one = one_direction(settings, settings.cell, choice)
            asked = Asked(takes_wx=True, all_states=every)
            over_time, last = run_call(one, Tensors(wx, given, flat, rows, inputs), asked)
            outputs.append([steps.to_steps(state).flatten(2) for state in over_time])
            lasts.append([state.flatten(1) for state in last])
        found = [torch.cat(both, 2) for both in zip(*outputs, strict=True)]
        return found, tuple([torch.stack(both) for both in zip(*lasts, strict=True)])

    def _input(self, settings: Settings, x: Tensor, weight: DTensor | None, steps: Steps) -> Tensor:
        """Return wx (B, T, N / n, D, Gx) of this rank's heads, from x (T_r, B, input)."""
        if weight is None:
            return x.new_empty(x.shape[1], steps.total, settings.heads, settings.dim, 0)
        local(weight)  # says what is wrong with a weight that is not spread over ranks
        whole = replicated(weight, self._mesh).to_local(grad_placements=[Partial()])
        W = self._form.blocks(whole)
        assert W is not None
        wx = input_share(settings, x, W).transpose(0, 1)
        # As it lies in memory: behind the heads come units, or gates.
        gates_last = wx.stride(4) <= wx.stride(3)
        wx = steps.to_heads(wx if gates_last else wx.transpose(3, 4))
        return (wx if gates_last else wx.transpose(3, 4)).transpose(0, 1)

    def _own_steps(self, x: Tensor) -> tuple[Tensor, Steps]:
        """Return the steps of this rank, and the distribution of all steps."""
        ranks = self._mesh.size()
        if isinstance(x, DTensor):
            length = -(-x.shape[0] // ranks)  # as `Shard` spreads them
            counts = [max(0, min(length, x.shape[0] - rank * length)) for rank in range(ranks)]
            own = x.redistribute(self._mesh, [Shard(0)]).to_local()
            return own, Steps(self._mesh, tuple(counts))
        if not self._options.uneven:
            return x, Steps(self._mesh, (x.shape[0],) * ranks)
        told = torch.tensor([x.shape[0]], device=x.device)
        found = [torch.empty_like(told) for _ in range(ranks)]
        dist.all_gather(found, told, group=self._mesh.get_group())
        return x, Steps(self._mesh, tuple(torch.cat(found).tolist()))

    def _of_all_steps(self, x: Tensor, ragged: Ragged, steps: Steps) -> tuple[Tensor, Ragged]:
        """Return x without values that no row reads, and the resets of all steps."""
        lengths, reset, values = ragged.lengths, ragged.reset, ragged.reset_to
        if lengths is not None:
            check_lengths(lengths, len(lengths), steps.total)
            x = ragged._replace(lengths=lengths.to(torch.int64) - steps.first).cleaned(x)
        if any(value.ndim == 4 for value in values or ()):
            found, wanted = "what is stored for each step", "one value for all steps"
            raise TensorError("reset_to", found, wanted, "HeadwiseParallel, which takes it")
        return x, Ragged(lengths, None if reset is None else steps.gathered(reset), values)

    def _output(self, y: Tensor, steps: Steps | None) -> Tensor:
        if self._options.use_local_output:
            return y
        assert steps is not None
        shape = torch.Size((steps.total, *y.shape[1:]))
        stride = y.new_empty(0, *y.shape[1:]).stride()
        return DTensor.from_local(
            y, self._mesh, [Shard(0)], run_check=False, shape=shape, stride=stride
        )


@dataclass(kw_only=True, eq=False)
class SequenceParallel(SpreadHeads):
    """Steps outside, heads inside: a style of `parallelize_module` for an `rnnc.RNN`.

    Outside of the module each of n ranks has T / n steps of all features; rank 0 has the first
    ones. Inside each runs N / n heads over all T steps. Each layer multiplies its input by its
    weights where the input is, exchanges the products by an all-to-all, runs the recurrence, and
    exchanges the output by another one.

    - Weights are DTensors with `Shard(0)`, as with `HeadwiseParallel`. A layer gathers its
      `weight_ih`; the backward sums and scatters the gradient. All other gradients are complete
      where the rows are.
    - Initial and last states are those of the rank's heads, (num_layers, B, hidden / n); so is
      `reset_to`. DTensors are taken too.
    - `x`, `reset` and `inputs` have the rank's steps. `lengths` count the steps of all ranks, and
      all ranks have them.
    - A plain input has T / n steps on each rank. Where T is not a multiple of n, pass a DTensor
      with `Shard` of time, or set `uneven`.

    The loss of a rank is that of its steps. Weights get the gradient of the sum over the ranks, so
    divide by the tokens of all ranks. `reduce_gradients` sums the gradients of all other
    parameters.

    Args:
        uneven: whether ranks may have different numbers of steps, of which they tell each other
            before every call. The host then waits for the device.
        use_local_output: whether output and states are plain tensors, this rank's part, instead of
            DTensors.

    Raises:
        TensorError: by `parallelize_module` on all ranks, if the heads do not divide, the module
            has a projection, or the module or the mesh of one rank does not fit.

    Source: Megatron-LM, `megatron/core/ssm/mamba_context_parallel.py`, which exchanges sequence
    shards for head shards likewise; Jacobs et al., DeepSpeed Ulysses, 2023.

    Example:
        >>> import rnnc
        >>> from torch.distributed.tensor.parallel import parallelize_module
        >>> style = rnnc.distributed.SequenceParallel()
        >>> # parallelize_module(model, mesh["steps"], {"rnn": style})     # in each process
    """

    uneven: bool = False
    kind = Sequential
