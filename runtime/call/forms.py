"""Weights of a layer, and the forms in which the parameters of a module hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...errors import TensorError
from .tensors import SomeTensors


class LayerWeights(NamedTuple):
    """Weights of one direction of a layer; None for each that the cell or layer does not have.

    W is (Gx, N, D, input), the weight of the input. The others are as in `ScanInputs`.
    """

    W: Tensor | None
    R: Tensor | None
    b: Tensor | None
    R_diag: Tensor | None
    params: tuple[Tensor, ...]

    def flat(self) -> tuple[Tensor | None, ...]:
        """Return all weights in one tuple; `weights_from` is the inverse."""
        return (self.W, self.R, self.b, self.R_diag, *self.params)


def weights_from(flat: Sequence[Any], parts: int) -> list[LayerWeights]:
    """Return the weights of each of `parts`, layers times directions, from `LayerWeights.flat`."""
    count = len(flat) // parts
    each = (flat[first : first + count] for first in range(0, len(flat), count))
    return [LayerWeights(W, R, b, R_diag, tuple(more)) for W, R, b, R_diag, *more in each]


class Named(NamedTuple):
    """Weight that a layer was built with.

    Attributes:
        name: without the layer, `weight_ih` for example.
        attribute: its name in the module.
        gates: (gates, N, D), whose units its rows are, in the order head, gate, unit; None for a
            weight that is no rows of gates.
    """

    name: str
    attribute: str
    shape: tuple[int, ...]
    gates: tuple[int, int, int] | None = None

    @property
    def by_gate(self) -> tuple[int, ...]:
        """Shape gate by gate, (gates, N, D) or (gates, N, D, features)."""
        return self.shape if self.gates is None else (*self.gates, *self.shape[1:])


# The names of a module's weights without the layer: f"{name}_l{layer}".
WEIGHTS = ("weight_ih", "weight_hh", "weight_hd", "bias")


def check_params(cell: CellSpec, taken: Sequence[str], module: str) -> None:
    """Check that no param of a cell has the name of a weight of the module that has the cell.

    `taken` are names of the module's weights without the layer; messages name it `module`.
    """
    for param in cell.params:
        if param.name in taken:
            raise TensorError(
                f"the param {param.name} of {cell.name}",
                f"the name of a weight of {module}, {param.name}_l0",
                f"a name other than {', '.join(taken)}",
                f"own_{param.name}: Param",
            )


class Form:
    """Form in which each parameter of a module is a weight of a layer; the base of other forms.

    A form converts parameters to weights, and gradients of weights back. Each direction of each
    layer has as many parameters as `LayerWeights.flat` has tensors. They lie in one sequence.
    `parts` is layers times directions, and `needs` says which parameters need a gradient. `name` is
    its word in the text of a call.
    """

    name = "own"

    def weights(self, parameters: SomeTensors, parts: int) -> list[LayerWeights]:
        """Return the weights of each direction of each layer, as views that autograd follows."""
        return weights_from(parameters, parts)

    def for_kernels(
        self, parameters: SomeTensors, parts: int, by_address: bool, biases: bool
    ) -> list[LayerWeights]:
        """Return the same where nothing has to follow.

        With `by_address` all but W may have any shape, if there is one head. Without `biases`
        nobody reads them, and they may hold other values.
        """
        return self.weights(parameters, parts)

    def flat(self, parameters: SomeTensors, parts: int) -> SomeTensors:
        """Return the `LayerWeights.flat` of each direction of each layer, one after the other."""
        return [weight for own in self.weights(parameters, parts) for weight in own.flat()]

    def of_step(self, parameters: SomeTensors, parts: int) -> SomeTensors:
        """Return what a single step reads, as `flat` but of any shape, by head, gate and unit."""
        return parameters

    def needs(self, needs: Sequence[bool], parts: int) -> Sequence[bool]:
        """Return which weights need a gradient."""
        return needs

    def gradients(self, gradients: SomeTensors, needs: Sequence[bool], parts: int) -> SomeTensors:
        """Return the gradients of the parameters, from those of the weights as `flat` has them."""
        return gradients


class TorchForm(Form):
    """Form of torch's modules: `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`, or no biases.

    The cells have one head. The rows of a matrix are gate by gate, and so are the biases: the sum
    of both. If `split`, the last gate is in two parts, of which one takes the last gate of
    `bias_ih` and the other that of `bias_hh`: the candidate of a GRU.
    """

    def __init__(self, split: bool) -> None:
        self.split, self.name = split, "torch_gru" if split else "torch"

    def weights(self, parameters: SomeTensors, parts: int) -> list[LayerWeights]:
        """Return the weights; matrices are views, and biases are added anew; see `Form`."""
        return self._weights(parameters, at_once=False, biases=True)

    def for_kernels(
        self, parameters: SomeTensors, parts: int, by_address: bool, biases: bool
    ) -> list[LayerWeights]:
        """Return the weights, whose biases are added at once; see `Form`."""
        return self._weights(parameters, at_once=True, biases=biases)

    def of_step(self, parameters: SomeTensors, parts: int) -> SomeTensors:
        """Return the weights flat; see `Form`."""
        return self.flat(parameters, parts)

    def _weights(self, parameters: SomeTensors, at_once: bool, biases: bool) -> list[LayerWeights]:
        pairs = [
            None if ih is None or hh is None else (ih, hh)
            for ih, hh in zip(parameters[2::4], parameters[3::4], strict=True)
        ]
        sums = iter(self._biases([pair for pair in pairs if pair], at_once) if biases else ())
        found = []
        for part, pair in enumerate(pairs):
            weight_ih, weight_hh = parameters[4 * part : 4 * part + 2]
            assert weight_ih is not None
            assert weight_hh is not None
            dim, b = weight_hh.shape[1], None
            if pair is not None:
                b = (next(sums) if biases else pair[0]).view(-1, 1, dim)
            W = weight_ih.reshape(-1, 1, dim, weight_ih.shape[1])
            found.append(LayerWeights(W, weight_hh.reshape(-1, 1, dim, dim), b, None, ()))
        return found

    def _biases(self, pairs: Sequence[tuple[Tensor, Tensor]], at_once: bool) -> list[Tensor]:
        """Return the biases of each pair, gate by gate: (gates * dim)."""
        counts = [len(ih) // 3 * 2 if self.split else len(ih) for ih, _ in pairs]
        added = [(ih[:n], hh[:n]) for (ih, hh), n in zip(pairs, counts, strict=True)]
        if at_once and len(added) > 1:
            sums = torch._foreach_add([ih for ih, _ in added], [hh for _, hh in added])
        else:
            sums = tuple([ih + hh for ih, hh in added])
        if not self.split:
            return list(sums)
        return [
            torch.cat((both, ih[n:], hh[n:]))
            for both, (ih, hh), n in zip(sums, pairs, counts, strict=True)
        ]

    def needs(self, needs: Sequence[bool], parts: int) -> Sequence[bool]:
        """Return which weights need a gradient; see `Form`."""
        found = []
        for first in range(0, 4 * parts, 4):
            weight_ih, weight_hh, bias_ih, bias_hh = needs[first : first + 4]
            found += [weight_ih, weight_hh, bias_ih or bias_hh, False]
        return found

    def gradients(self, gradients: SomeTensors, needs: Sequence[bool], parts: int) -> SomeTensors:
        """Return the gradients of the parameters; see `Form`."""
        found: list[Tensor | None] = []
        for first in range(0, 4 * parts, 4):
            d_W, d_R, d_b, _ = gradients[first : first + 4]
            d_ih = d_hh = None
            if d_b is not None:
                d_ih = d_hh = d_b.reshape(-1)
                if self.split:
                    dim = d_b.shape[-1]
                    d_hh = torch.cat((d_ih[: -2 * dim], d_ih[-dim:])) if needs[first + 3] else None
                    d_ih = d_ih[:-dim]
            found += [_rows(d_W), _rows(d_R), d_ih, d_hh]
        return found


def _rows(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else gradient.reshape(-1, gradient.shape[-1])


@dataclass(frozen=True)
class RowsForm(Form):
    """Form of rows in the order head, gate, unit: matrices are (rows, features), vectors (rows).

    With one head each weight is a view of its parameter, and so is each parameter's gradient.
    Params lie as they are, (N, D). `heads` are those of each direction of a layer, of `dim` units
    each.
    """

    heads: int
    dim: int
    name = "rows"

    def weights(self, parameters: SomeTensors, parts: int) -> list[LayerWeights]:
        """Return the weights, as views; see `Form`."""
        return self.for_kernels(parameters, parts, False, True)

    def for_kernels(
        self, parameters: SomeTensors, parts: int, by_address: bool, biases: bool
    ) -> list[LayerWeights]:
        """Return the weights, as views; see `Form`."""
        each, found = len(parameters) // parts, []
        as_it_is = by_address and self.heads == 1
        for first in range(0, len(parameters), each):
            W, *others = parameters[first : first + 4]
            params: Any = tuple(parameters[first + 4 : first + each])
            R, b, R_diag = others if as_it_is else map(self.blocks, others)
            found.append(LayerWeights(self.blocks(W), R, b, R_diag, params))
        return found

    def gradients(self, gradients: SomeTensors, needs: Sequence[bool], parts: int) -> SomeTensors:
        """Return the gradients of the parameters; those in their shape stay as they are."""
        each, found = len(gradients) // parts, list(gradients)
        for first in range(0, len(found), each):
            for place in range(first, first + 4):
                gradient, rank = found[place], 2 if place < first + 2 else 1
                if gradient is None or gradient.ndim == rank:
                    continue
                if self.heads > 1:
                    found[place] = to_rows(gradient)
                else:
                    found[place] = gradient.reshape(-1, *gradient.shape[3:])
        return found

    def blocks(self, rows: Tensor | None) -> Tensor | None:
        """Return (gates, N, D, …) of rows (N * gates * D, …)."""
        if rows is None:
            return None
        if self.heads == 1:
            return rows.view(-1, 1, self.dim, *rows.shape[1:])
        return rows.view(self.heads, -1, self.dim, *rows.shape[1:]).transpose(0, 1)


rows_form = RowsForm  # the name that pickles of earlier versions hold


def to_rows(weight: Tensor) -> Tensor:
    """Return (gates, N, D, features) or (gates, N, D) as rows in the order head, gate, unit."""
    return torch.flatten(weight.transpose(0, 1), 0, 2)


OWN, TORCH, TORCH_GRU = Form(), TorchForm(split=False), TorchForm(split=True)
