"""`HeadwiseParallel`: each rank runs some heads over all steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from ...cellspec.cell import CellSpec
from ...errors import TensorError
from ..call.call import Tensors
from ..call.settings import Asked, Settings
from ..call.tensors import States
from ..run.projected.layers import scan_projected
from ..run.route import run_call
from .exchange import Steps
from .parallel import Parallel, entered, local
from .shards import SpreadHeads


class Headwise(Parallel):
    """An `rnnc.RNN` whose ranks run some heads each over all steps."""

    style = "HeadwiseParallel"
    _options: HeadwiseParallel

    def _entered(self, whole: Tensors) -> tuple[Tensors, None]:
        x = entered(whole.x, self._mesh, self._options.input_layouts)
        inputs = self._own_heads(entered(each, self._mesh) for each in whole.unweighted)
        return whole._replace(x=x, unweighted=inputs), None

    def _run_layer(
        self, settings: Settings, tensors: Tensors, every: bool, steps: Steps | None
    ) -> tuple[list[Tensor], States]:
        tensors = tensors._replace(weights=[local(weight) for weight in tensors.weights])
        own = self._projected(settings.cell)
        if own is not None:
            return scan_projected(settings, own, tensors, every)
        return run_call(settings, tensors, Asked(all_states=every))

    def _step(self, given: Tensors, training: bool, cell: CellSpec) -> tuple[Tensor, States]:
        (y, *_), last = self._run(given._replace(x=given.x.unsqueeze(0)), False, cell)
        return y[0], last

    def _whole(self, y: Tensor) -> DTensor:
        """Gather the features of all heads, (T, B, directions, features)."""
        by_direction = torch.unflatten(y, -1, (2 if self.bidirectional else 1, -1))
        sharded = DTensor.from_local(by_direction, self._mesh, [Shard(-1)], run_check=False)
        return sharded.redistribute(self._mesh, [Replicate()])

    def _between(self, y: Tensor) -> Tensor:
        """Return the input of the layer above; each rank's heads give a part of its gradient."""
        return self._whole(y).to_local(grad_placements=[Partial()]).flatten(-2)

    def _output(self, y: Tensor, steps: Steps | None) -> Tensor:
        layout = self._options.output_layouts
        if layout == Shard(-1) and not self.bidirectional:
            found = DTensor.from_local(y, self._mesh, [layout], run_check=False)
        else:
            whole: Any = self._whole(y).flatten(-2)
            found = whole.redistribute(self._mesh, [layout])
        return found.to_local() if self._options.use_local_output else found


@dataclass(kw_only=True, eq=False)
class HeadwiseParallel(SpreadHeads):
    """Heads over ranks: a style of `parallelize_module` for an `rnnc.RNN`.

    With N heads and n ranks each rank keeps N / n heads: of each weight the rows of its heads, a
    DTensor with `Shard(0)`. The input is the same on all ranks. Between layers, and behind the last
    one, the features of all heads are gathered (T · B · hidden values).

    - Initial and last states are those of the rank's heads, (num_layers, B, hidden / n); so is
      `reset_to`. DTensors are taken too.
    - `lengths`, `reset` and `inputs` are the same on all ranks.
    - The gradient of a weight is complete on the rank that has the rows: nobody reduces it. The
      gradients of the input and of `inputs` are summed over the ranks.

    Args:
        input_layouts: of a plain input: `Replicate()`, the default, or `Shard(-1)`.
        output_layouts: `Replicate()`, the default, or `Shard(-1)` for a `RowwiseParallel` Linear
            behind the module.
        use_local_output: whether output and states are plain tensors, this rank's part, instead of
            DTensors.

    Raises:
        TensorError: a layout is another one; by `parallelize_module` on all ranks, if the heads do
            not divide, or the module or the mesh of one rank does not fit.

    Source: Shoeybi et al., Megatron-LM, 2019, section 3, whose attention heads are spread likewise.

    Example:
        >>> import rnnc
        >>> from torch.distributed.tensor.parallel import parallelize_module
        >>> style = rnnc.distributed.HeadwiseParallel()
        >>> # parallelize_module(model, mesh["heads"], {"rnn": style})     # in each process
    """

    input_layouts: Placement | None = None
    output_layouts: Placement | None = None
    kind = Headwise

    def __post_init__(self) -> None:
        for name in ("input_layouts", "output_layouts"):
            given = getattr(self, name) or Replicate()
            if given not in (Replicate(), Shard(-1)):
                wanted = "Replicate() or Shard(-1), the features"
                raise TensorError(name, repr(given), wanted, f"{name}=Replicate()")
            setattr(self, name, given)
