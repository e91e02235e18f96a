"""Base of modules whose heads are spread over ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import ParallelStyle

from ...cellspec.cell import CellSpec
from ...errors import RnncError, TensorError
from ..call.call import Tensors
from ..call.forms import RowsForm
from ..call.ragged import Ragged
from ..call.settings import Settings
from ..call.tensors import States, inputs_of
from ..module.parameters import weight_of
from ..module.rnn import RNN
from ..run.draws import Drawing, Undrawn
from ..run.known_calls import KnownCalls
from .draws import draw_of_rank, dropped
from .exchange import Steps, agree


class NoCalls(KnownCalls):
    """Known calls that stay empty, since kernels run on parts of the module's tensors."""

    def find_sequence(self, *call: Any) -> None:
        """Return None."""

    def find_call(self, *call: Any) -> None:
        """Return None."""


class Parallel(RNN):
    """An `rnnc.RNN` of which each rank of a mesh has N / n heads.

    A style changes the class of a module to this one, as `fully_shard` does. Weights are DTensors,
    whose rows are in the order head, gate, unit: `Shard(0)` gives a rank whole heads. If
    `directions_apart`, both directions of a layer are always two calls.
    """

    style: ClassVar[str]
    directions_apart: ClassVar[bool] = False
    _mesh: DeviceMesh
    _options: Any  # the style, whose arguments are options of the module

    @classmethod
    def check(cls, module: RNN) -> None:
        """Raise a `TensorError` for a module of one process that the style cannot run."""

    def _begin(self, mesh: DeviceMesh, options: ParallelStyle) -> None:
        self._mesh, self._options, self._agreed = mesh, options, False
        self._remember()

    def _remember(self) -> None:
        super()._remember()
        self._known_calls = NoCalls()
        # States are those of this rank's heads.
        ranks = self._mesh.size()
        self._widths = {name: width // ranks for name, width in self._widths.items()}
        self._own_form = RowsForm(self.heads // ranks, self.hidden_size // self.heads)

    def forward(self, x: Any, states: Any = None, *, hx: Any = None, **more: Any) -> Any:
        """Run `rnnc.RNN.forward` with x as the style takes it, on all ranks.

        `states` and its other name `hx` are those of this rank's heads, (num_layers, B, hidden / n)
        each, or DTensors.
        """
        cuda = self._mesh.device_type == "cuda"
        captures = cuda and torch.cuda.is_current_stream_capturing()
        if not (self._agreed or torch.compiler.is_compiling() or captures):
            self._first_call(x)
        return super().forward(x, self._own(states), hx=self._own(hx), **more)

    def step(self, x: Any, states: Any = None, *, hx: Any = None, **more: Any) -> Any:
        """Run `rnnc.RNN.step` with x and states as `forward` takes them, but without steps."""
        return super().step(x, self._own(states), hx=self._own(hx), **more)

    def stepper(self, *args: Any, **options: Any) -> NoReturn:
        """Raise a `TensorError`: a stepper reads whole weights."""
        raise TensorError(
            "stepper",
            f"a module that {self.style} has spread over ranks",
            "whole weights on one device",
            "a module of one process with the weights of a checkpoint (docs/distributed.md)",
        )

    def _first_call(self, x: Any) -> None:
        """Let the ranks agree on the input of the first call; later ones exchange no facts."""
        problem = None
        try:
            self._check_sequence(x, None)
        except RnncError as error:
            problem = error
        facts = {} if problem is not None else self._facts_of(x)
        agree(self._mesh, facts, problem)
        self._agreed = True

    def _facts_of(self, x: Tensor) -> dict[str, Any]:
        """Return the facts of the input that are the same on all ranks."""
        return {"the shape of x": tuple(x.shape), "the dtype of x": x.dtype}

    def _own(self, states: Any) -> Any:
        """Return states of this rank's heads, from DTensors or as they are."""
        if isinstance(states, DTensor):
            return states.redistribute(self._mesh, [Shard(-1)]).to_local()
        if isinstance(states, list | tuple):
            return tuple([self._own(state) for state in states])
        return states

    def _one_layer(self, cell: CellSpec | None = None) -> Settings:
        """Return the settings of a layer with this rank's heads; `cell` is the one that runs."""
        settings = self._settings(False, cell)
        heads, form = settings.heads // self._mesh.size(), self._own_form
        return settings._replace(layers=1, heads=heads, order="auto", form=form)

    def _weights_of_layer(self, layer: int) -> list[Any]:
        """Return the weights of a layer, as DTensors."""
        each = len(self._in_order) // self.num_layers
        own = self._in_order[layer * each : (layer + 1) * each]
        return [None if named is None else weight_of(self, named, None) for named in own]

    def _run(self, given: Tensors, every: bool, cell: CellSpec) -> tuple[list[Tensor], States]:
        passed = [each for each in given.unweighted if not isinstance(each, Undrawn)]
        whole, steps = self._entered(given._replace(states=(), unweighted=passed))
        inputs = self._with_own_draws(whole, steps, given.unweighted)
        x, directions, settings = whole.x, 2 if self.bidirectional else 1, self._one_layer(cell)
        lasts: list[States] = []
        found: list[Tensor] = []
        for layer in range(self.num_layers):
            if layer:
                x = self._between(self._dropped(found[0]))
            part = slice(layer * directions, (layer + 1) * directions)
            own = tuple([state[part] for state in given.states])
            rows, more = of_layer(whole.ragged, part), inputs_of(inputs, part)
            tensors = Tensors(x, own, self._weights_of_layer(layer), rows, more)
            wanted = every and layer == self.num_layers - 1
            found, last = self._run_layer(settings, tensors, wanted, steps)
            lasts.append(last)
        return [self._output(each, steps) for each in found], self._states_out(lasts)

    def _with_draws(self, cell: CellSpec, x: Tensor, axes: str, drawing: Drawing) -> Any:
        """Return inputs in which those that the call draws are still to be drawn."""
        inputs, sample, generator, _ = drawing
        if not sample:
            return super()._with_draws(cell, x, axes, drawing)
        if not (inputs is None or isinstance(inputs, Mapping)):
            return inputs  # the checks say what is wrong
        added = {
            name: Undrawn(draw, draw.numbers(cell.constant_values), generator)
            for name, draw in cell.drawn.items()
        }
        return {**added, **(inputs or {})}

    def _with_own_draws(
        self, whole: Tensors, steps: Steps | None, unweighted: Sequence[Any]
    ) -> list[Tensor]:
        """Return the inputs of this rank's heads, of all directions of all layers."""
        sizes, rank = self._sizes(), self._mesh.get_local_rank()
        heads, count = (
            sizes.heads // self._mesh.size(),
            len(whole.x) if steps is None else steps.total,
        )
        shape = sizes.parts, count, whole.x.shape[1], heads, sizes.dim
        reset = None if whole.ragged is None else whole.ragged.reset
        passed = iter(whole.unweighted)
        return [
            draw_of_rank(given, rank, whole.x, shape, reset)
            if isinstance(given, Undrawn)
            else next(passed)
            for given in unweighted
        ]

    def _entered(self, whole: Tensors) -> tuple[Tensors, Steps | None]:
        """Return the tensors of this rank in a call of all layers, and how steps are spread.

        `whole` has neither states nor weights. None stands for steps that each rank has all of.
        """
        raise NotImplementedError

    def _run_layer(
        self, settings: Settings, tensors: Tensors, every: bool, steps: Steps | None
    ) -> tuple[list[Tensor], States]:
        """Run a layer with this rank's heads; weights are DTensors.

        Returns:
            The output, or all states if `every`, at this rank's steps, and the last states.
        """
        raise NotImplementedError

    def _between(self, y: Tensor) -> Tensor:
        """Return the input of the layer above."""
        return y

    def _output(self, y: Tensor, steps: Steps | None) -> Tensor:
        """Return a result at all steps as the style gives it."""
        raise NotImplementedError

    def _dropped(self, y: Tensor) -> Tensor:
        """Drop features between two layers, by a mask of this rank's own."""
        if not (self.training and self.dropout):
            return y
        return dropped(y, self.dropout, self._mesh.get_local_rank())

    def _own_heads(self, whole: Iterable[Tensor]) -> list[Tensor]:
        """Return the parts of the cell's inputs, of all heads and steps, for this rank's heads."""
        count = self.heads // self._mesh.size()
        first = self._mesh.get_local_rank() * count
        return [x.narrow(-2, first, count) if x.shape[-2] > 1 else x for x in whole]

    def _states_out(self, lasts: Sequence[States]) -> States:
        """Return each state of all layers: of this rank's heads, or as DTensors."""
        found = [torch.cat(each) for each in zip(*lasts, strict=True)]
        if not self._options.use_local_output:
            found = [DTensor.from_local(each, self._mesh, [Shard(-1)]) for each in found]
        return tuple(found)


def local(weight: Tensor | None) -> Tensor | None:
    """Return this rank's rows of a weight; raise a `TensorError` unless it is a DTensor or None."""
    if weight is None:
        return None
    if not isinstance(weight, DTensor):
        raise TensorError(
            "a weight",
            f"a {type(weight).__name__} in a module whose weights are spread over ranks",
            "a DTensor with Shard(0)",
            "load_state_dict with DTensors, or parallelize_module after the weight was replaced",
        )
    return weight.to_local()


def entered(x: Tensor, mesh: DeviceMesh, layout: Any = None) -> Tensor:
    """Return x, given in a layout, on all ranks; its gradient is the sum over all ranks."""
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, [layout or Replicate()], run_check=False)
    return x.redistribute(mesh, [Replicate()]).to_local(grad_placements=[Partial()])


def of_layer(ragged: Ragged | None, part: slice) -> Ragged | None:
    """Return the lengths and resets of a call, with the reset values of the directions `part`."""
    if ragged is None or ragged.reset_to is None:
        return ragged
    return ragged._replace(reset_to=[value[part] for value in ragged.reset_to])
