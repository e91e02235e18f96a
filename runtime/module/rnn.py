"""`rnnc.RNN`: any cell as a torch module, with the conventions of `nn.LSTM`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Generator, Tensor
from torch.fx import Proxy

from ...cellspec.cell import CellSpec
from ..call.call import Tensors
from ..call.settings import states_asked
from ..call.tensors import States
from ..check.module import states_from
from ..grad.node import run_ready
from ..run.draws import Drawing
from ..run.known_calls import of_means
from ..run.leaf import as_leaf
from ..run.projected.layers import scan_projected
from ..run.route import run_call
from ..targets.target import Target
from .steps import Steps


class RNN(Steps):
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

    def _kind(self, target: Target, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return what may be set between calls, of the module and of torch."""
        tf32, dropout = target.rounds(dtype, self.precision), self.training and self.dropout
        sizes = self.heads, self.hidden_size, self.num_layers, self.bidirectional
        choice = self.variant, self.save, self.precision, self.layers
        return self.cell, sizes, dropout, tf32, self.backend, choice

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults, as text."""
        shown = [self.cell.name, str(self.input_size), str(self.hidden_size)]
        for name, option in signature(RNN).parameters.items():
            value = getattr(self, name, None)  # None for the device and the dtype of parameters
            if option.kind is option.KEYWORD_ONLY and value != option.default:
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)

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
        given: Any = states_from(states, hx, len(self._widths)) if bare else states
        axes, cell = "BT" if self.batch_first else "TB", self.cell
        if self._draws or sample is not None or generator is not None:
            axes = "T" if isinstance(x, Tensor) and x.ndim == 2 else axes
            drawing = Drawing(inputs, sample, generator, reset)
            cell, inputs = self._sampled(x, axes, drawing)
        plain = inputs is None and not cell.inputs
        more = tuple if plain else partial(self._unweighted, cell, inputs, x, axes)
        kind = of_means("all states" if all_states else "sequence", cell is not self.cell)
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
            tensors = Tensors(x, tuple(given or ()), (), ragged, unweighted)
            found, last = self._run(tensors, all_states, cell)
        if single:
            found, last = [s.squeeze(1) for s in found], tuple([s.squeeze(1) for s in last])
        elif swapped:
            found = [state.transpose(0, 1) for state in found]
        if all_states:
            return found[0], last, dict(zip(self._widths, found, strict=True))
        return found[0], last

    def _run(self, given: Tensors, every: bool, cell: CellSpec) -> tuple[list[Tensor], States]:
        """Run all layers, time first, batched; `cell` is that of the module, or its mean.

        The tensors are all but the weights.
        """
        settings, projection = self._settings(self.training, cell), self._projected(cell)
        x, tensors = given.x, given._replace(weights=self._weights_on(given.x.device))
        if projection is not None:
            return scan_projected(settings, projection, tensors, every)
        kind = of_means("all states" if every else "sequence", cell is not self.cell)
        remember = partial(self._known_calls.remember_call, kind, self, x)
        return run_call(settings, tensors, states_asked(every), remember)
