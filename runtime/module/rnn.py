"""`rnnc.RNN`: any cell as a torch module, with the conventions of `nn.LSTM`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.fx import Proxy

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kinds import variants
from ...codegen.shape import PRECISIONS, SAVES, Precision, Save
from ..call.call import Tensors
from ..call.forms import RowsForm
from ..call.layer_call import ORDERS, Order
from ..call.options import check_choice, check_flag
from ..call.projection import OWN_WEIGHT, WEIGHT, projection_of
from ..call.ragged import Ragged
from ..call.settings import states_asked
from ..call.tensors import States
from ..check.module import (
    check_cell,
    check_heads,
    check_module_dtype,
    check_probability,
    check_size,
    states_from,
)
from ..grad.node import run_ready
from ..run.known_calls import KnownCalls, of_means
from ..run.leaf import as_leaf
from ..run.projected.layers import scan_projected
from ..run.route import run_call
from ..targets.registry import check_backend
from .earlier import OPTIONS_SINCE, reorder_module
from .options import Options
from .parameters import Weighted, weights_of_layer
from .steps import Steps


class RNN(Steps, Options, Weighted):
    """One or more layers of a recurrent cell.

    The parameters of layer k, where the cell has them (N heads of D units, N · D = hidden_size;
    Gx, Gr, Gd, Gb as in `rnnc.scan`):

    - `weight_ih_l{k}` (N · Gx · D, input): the input projection of each gate with input;
    - `weight_hh_l{k}` (N · Gr · D, D): a recurrent matrix (D, D) per head and pair;
    - `weight_hd_l{k}` (N · Gd · D): diagonal recurrent weights;
    - `bias_l{k}` (N · Gb · D);
    - `<param>_l{k}` (N, D) for each param of the cell.

    With `proj_size=P` `weight_hh_l{k}` has the matrices that multiply the output, (D, P) each, and
    there are further parameters:

    - `weight_hs_l{k}` (N · gates · D, D): the matrices that multiply something else, another state
      or the argument of a called gate, if there are any;
    - `weight_hr_l{k}` (N · P, D): the projection of the output, a matrix (P, D) per head.

    Rows are in the order head, gate, unit: with one head those of `nn.LSTM`.

    A bidirectional layer has all of them again for the direction from the last step to the first,
    with `_reverse` at the end of their names: `weight_ih_l{k}_reverse`. Layers above the first
    have 2 · hidden_size input features.

    Recurrent matrices and projections start orthogonal (Saxe et al., 2014), input weights uniform
    with the variance 1 / input (LeCun et al., 1998), diagonal weights uniform in (-1, 1), biases at
    zero and params at their `init`.

    Args:
        cell: the cell, or its name in `rnnc.cells`.
        input_size: features of the input.
        hidden_size: units of a layer, all heads together.
        heads: independent recurrent heads; they divide `hidden_size`.
        num_layers: layers, each fed by the one below.
        bias: whether gates have biases.
        batch_first: whether input and output are (B, T, features) instead of (T, B, features).
        dropout: the probability of dropping a feature between layers, in training.
        bidirectional: whether each layer runs in both directions of time. The output has the
            features of both beside each other, 2 · hidden_size; states come in the order of
            `nn.LSTM`, at 2 · layer + direction.
        proj_size: P, features of the output per head, 0 for no projection. The output, the first
            state and its reset values then have N · P features instead of `hidden_size`, as in
            `nn.LSTM`; recurrent matrices read them. The recurrence costs what it costs without.
        backend: as in `rnnc.scan`.
        variant: as in `rnnc.scan`.
        save: as in `rnnc.scan`.
        precision: as in `rnnc.scan`.
        layers: how the layers run. "wavefront" runs them at the same time on a GPU, each a chunk of
            steps behind the one below; "sequential" one after the other, with the same bits;
            "auto" takes what is faster.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        TensorError: there is no cell of the name, a size is no whole number or too small, heads do
            not divide `hidden_size`, `dropout` is no probability, `bias`, `batch_first` or
            `bidirectional` is neither True nor False, or the cell with `proj_size` reads its output
            in another way than through recurrent matrices.

    Example:
        >>> import torch, rnnc
        >>> rnn = rnnc.RNN(rnnc.cells.slstm, 10, 64, heads=4, batch_first=True)
        >>> y, last = rnn(torch.randn(3, 20, 10))
        >>> y.shape, [s.shape for s in last][:1]          # last: one (layers, B, hidden) per state
        (torch.Size([3, 20, 64]), [torch.Size([1, 3, 64])])
    """

    def __init__(
        self,
        cell: CellSpec | str,
        input_size: int,
        hidden_size: int,
        *,
        heads: int = 1,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        backend: str = "auto",
        variant: str = "auto",
        save: Save = "gates",
        precision: Precision = None,
        layers: Order = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.cell = check_cell(cell)
        self.input_size = check_size("input_size", input_size)
        self.hidden_size = check_size("hidden_size", hidden_size)
        self.heads = check_heads(heads, hidden_size)
        self.num_layers = check_size("num_layers", num_layers)
        check_module_dtype(dtype)
        self.bias = check_flag("bias", bias)
        self.batch_first = check_flag("batch_first", batch_first)
        self.dropout = check_probability("dropout", dropout)
        self.bidirectional = check_flag("bidirectional", bidirectional)
        self.proj_size = proj_size
        self.backend = check_backend(backend)
        self.variant: str = check_choice("variant", variant, variants())
        self.save: Save = check_choice("save", save, SAVES)
        self.precision: Precision = check_choice("precision", precision, PRECISIONS)
        self.layers: Order = check_choice("layers", layers, ORDERS)
        self._remember()
        for own in self._weights:
            for named in own.values():
                parameter = nn.Parameter(torch.empty(named.shape, device=device, dtype=dtype))
                self.register_parameter(named.attribute, parameter)
        self.reset_parameters()

    def _remember(self) -> None:
        """Take plain values from the cell, which torch.compile traces more easily."""
        self._known_calls = KnownCalls()
        self._state_names = [s.name for s in self.cell.states]
        self._draws, self._mean = bool(self.cell.drawn), self.cell.mean()
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        dim = self.hidden_size // self.heads
        self._projection = projection_of(self.cell, self.proj_size, dim)
        width = self.heads * self.proj_size or self.hidden_size
        # The features of each state.
        self._widths = [width, *[self.hidden_size] * (len(self._state_names) - 1)]
        self._form = RowsForm(self.heads, dim)
        self._weights = [
            weights_of_layer(
                self.cell,
                self._features if layer else self.input_size,
                *(self.heads, dim, self.bias),
                *(f"_l{layer}{suffix}", self.proj_size),
            )
            for layer in range(self.num_layers)
            for suffix in suffixes
        ]
        names = ["weight_ih", "weight_hh", "bias", "weight_hd", *[p.name for p in self.cell.params]]
        names += [OWN_WEIGHT, WEIGHT] if self.proj_size else []
        self._in_order = [own.get(name) for own in self._weights for name in names]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.__dict__ |= OPTIONS_SINCE | self.__dict__
        self._remember()
        reorder_module(self, self._all_weights())

    @property
    def _features(self) -> int:
        """Number of features of the output of a layer."""
        return self._widths[0] * (2 if self.bidirectional else 1)

    def forward(
        self,
        x: Tensor,
        states: Sequence[Tensor] | Tensor | None = None,
        *,
        hx: Sequence[Tensor] | Tensor | None = None,
        all_states: bool = False,
        lengths: Tensor | None = None,
        reset: Tensor | None = None,
        reset_to: Sequence[Tensor] | None = None,
        inputs: Mapping[str, Tensor] | None = None,
        sample: bool | None = None,
        generator: Generator | None = None,
    ) -> tuple[Tensor, States] | tuple[Tensor, States, dict[str, Tensor]]:
        """Run all layers over a sequence.

        Args:
            x: (T, B, input), or (B, T, input) with `batch_first`, or (T, input) for one sequence.
            states: the states before the first step, one (num_layers, B, hidden) tensor per state,
                or (num_layers, hidden) for one sequence; by default each state's `init`. A bare
                tensor stands for the only state of a cell. A bidirectional module has
                2 · num_layers of them; its reverse directions begin with the last step of `x`.
            hx: another name of `states`, that of torch.
            all_states: whether all states of the last layer are returned at all steps.
            lengths: (B,), or () for one sequence; as in `rnnc.scan`, in all layers.
            reset: (T, B), (B, T) with `batch_first`, or (T,); as in `rnnc.scan`, in all layers.
            reset_to: for each state (num_layers, hidden) or (num_layers, B, hidden), or what is
                stored for each step, (num_layers, T, B, hidden), or (num_layers, B, T, hidden) with
                `batch_first`; as in `rnnc.scan`.
            inputs: a tensor for each `Input` of the cell, by name, for all layers: of the first
                axes of `x`, (T, B) for example; or with hidden, or heads and units per head, behind
                them, and layers * directions in front. A size may be 1 where all have one value.
                An `Input` with a distribution may be left out: each direction of a layer draws it.
            sample: whether the call draws; by default in training alone. If not, it runs
                `cell.mean()`, in which each such input is the mean of its distribution.
            generator: what inputs are drawn from, on the device of `x`; None for torch's own.

        Returns:
            The last layer's output (the first state) at all steps, in the layout of `x`, and all
            states after the last step, in the layout of `states`. The output of a bidirectional
            module has 2 · hidden features: at each step the state of either direction after it.
            With `all_states` also each state of the last layer at all steps, by its name, in the
            layout of the output.

        Raises:
            TensorError: a tensor does not fit; names it and what was expected.
        """
        masks = lengths, reset, reset_to
        if isinstance(x, Proxy):
            named = dict(zip(("lengths", "reset", "reset_to"), masks, strict=True), inputs=inputs)
            every = None if all_states is False else all_states
            named |= {"all_states": every, "sample": sample, "generator": generator}
            return as_leaf(self, x, states, hx=hx, **named)
        bare = hx is not None or isinstance(states, Tensor)
        given: Any = states_from(states, hx, len(self._state_names)) if bare else states
        axes, cell = "BT" if self.batch_first else "TB", self.cell
        if self._draws or sample is not None or generator is not None:
            axes = "T" if isinstance(x, Tensor) and x.ndim == 2 else axes
            cell, inputs = self._sampled(x, axes, inputs, sample, generator, reset)
        plain = inputs is None and not cell.inputs
        more = tuple if plain else partial(self._unweighted, cell, inputs, x, axes)
        kind = "all states" if all_states else "sequence"
        kind = kind if cell is self.cell else of_means(kind)
        known = self._known_calls.find_sequence(self, x, given, masks, more, kind)
        if known is not None:
            found, last = run_ready(known)
            swapped, single = self.batch_first, False
        else:
            self._check_sequence(x, given)
            ragged = self._ragged(x, masks)
            single, swapped = x.ndim == 2, x.ndim == 3 and self.batch_first
            unweighted = () if plain else self._unweighted(cell, inputs, x, "T" if single else axes)
            if single:
                x = x.unsqueeze(1)
                given = None if given is None else [state.unsqueeze(1) for state in given]
            elif swapped:
                x = x.transpose(0, 1)
            found, last = self._run(x, given, all_states, ragged, unweighted, cell)
        if single:
            found, last = [s.squeeze(1) for s in found], tuple([s.squeeze(1) for s in last])
        elif swapped:
            found = [state.transpose(0, 1) for state in found]
        if all_states:
            return found[0], last, dict(zip(self._state_names, found, strict=True))
        return found[0], last

    def _run(
        self,
        x: Tensor,
        states: Sequence[Tensor] | None,
        every: bool,
        ragged: Ragged | None,
        unweighted: Sequence[Tensor],
        cell: CellSpec,
    ) -> tuple[list[Tensor], States]:
        """Run all layers, time first, batched; `cell` is that of the module, or its mean."""
        settings, projection = self._settings(self.training, cell), self._projection
        given, weights = tuple(states or ()), self._weights_on(x.device)
        tensors = Tensors(x, given, weights, ragged, tuple(unweighted))
        if projection is not None:
            own = projection if cell is self.cell else projection.mean()
            return scan_projected(settings, own, tensors, every)
        kind = "all states" if every else "sequence"
        kind = kind if cell is self.cell else of_means(kind)
        remember = partial(self._known_calls.remember_call, kind, self, x)
        return run_call(settings, tensors, states_asked(every), remember)
