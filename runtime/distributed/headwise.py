"""`HeadwiseParallel`: each rank runs some heads over all steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import ParallelStyle

from ...cellspec.cell import CellSpec
from ...errors import TensorError
from ..call.call import Tensors
from ..call.settings import Asked
from ..call.tensors import States
from ..run.projected.layers import scan_projected
from ..run.route import run_call
from .exchange import Steps
from .parallel import LayerRun, Parallel, entered, local
from .shards import spread_heads


class HeadwiseParallel(ParallelStyle):
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

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = _layout("input_layouts", input_layouts)
        self.output_layouts = _layout("output_layouts", output_layouts)
        self.use_local_output = use_local_output

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        options = {
            "_input_layout": self.input_layouts,
            "_output_layout": self.output_layouts,
            "_use_local_output": self.use_local_output,
        }
        return spread_heads(module, device_mesh, Headwise, options, self.src_data_rank)

    def __repr__(self) -> str:
        layouts = f"input_layouts={self.input_layouts}, output_layouts={self.output_layouts}"
        return f"HeadwiseParallel({layouts}, use_local_output={self.use_local_output})"


def _layout(name: str, given: Placement | None) -> Placement:
    given = Replicate() if given is None else given
    if given not in (Replicate(), Shard(-1)):
        wanted = "Replicate() or Shard(-1), the features"
        raise TensorError(name, repr(given), wanted, f"{name}=Replicate()")
    return given


class Headwise(Parallel):
    """An `rnnc.RNN` whose ranks run some heads each over all steps."""

    style = "HeadwiseParallel"
    _input_layout: Placement
    _output_layout: Placement

    def _entered(self, whole: LayerRun) -> LayerRun:
        x = entered(whole.x, self._mesh, self._input_layout)
        inputs = self._own_heads(entered(each, self._mesh) for each in whole.unweighted)
        return whole._replace(x=x, unweighted=inputs)

    def _run_layer(self, layer: int, run: LayerRun) -> tuple[list[Tensor], States]:
        settings, weights = self._one_layer(run.cell), map(local, self._weights_of_layer(layer))
        given = tuple(run.states or ()), list(weights), run.ragged, tuple(run.unweighted)
        tensors = Tensors(run.x, *given)
        own = self._projected(run.cell)
        if own is not None:
            return scan_projected(settings, own, tensors, run.every)
        return run_call(settings, tensors, Asked(all_states=run.every))

    def _step(
        self,
        x: Tensor,
        states: Sequence[Tensor] | None,
        training: bool,
        unweighted: Sequence[Tensor],
        cell: CellSpec,
    ) -> tuple[Tensor, States]:
        (y, *_), last = self._run(x.unsqueeze(0), states, False, None, unweighted, cell)
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
        layout = self._output_layout
        if layout == Shard(-1) and not self.bidirectional:
            found = DTensor.from_local(y, self._mesh, [layout], run_check=False)
        else:
            whole: Any = self._whole(y).flatten(-2)
            found = whole.redistribute(self._mesh, [layout])
        return found.to_local() if self._use_local_output else found
