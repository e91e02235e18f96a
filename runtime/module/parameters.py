"""Options and weights of `rnnc.RNN`: checked, drawn, found, saved and loaded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from ...cellspec.cell import CellSpec
from ...codegen.cuda.kinds import variants
from ...codegen.shape import PRECISIONS, SAVES, Precision, Save
from ...errors import TensorError
from ..call.forms import Named, RowsForm, to_rows
from ..call.layer_call import ORDERS, Order
from ..call.options import check_choice, check_flag
from ..call.projection import OWN_WEIGHT, WEIGHT, projection_of, reads_output
from ..check.module import (
    check_cell,
    check_heads,
    check_module_dtype,
    check_probability,
    check_size,
    check_weight_of_module,
)
from ..run.known_calls import KnownCalls
from ..targets.registry import check_backend
from .earlier import OPTIONS_SINCE, reorder_module, reorder_state_dict
from .identity import check_same_cell, identity_of


def weights_of_layer(
    cell: CellSpec, input_size: int, heads: int, dim: int, bias: bool, end: str, projected: int = 0
) -> dict[str, Named]:
    """Return the weights of one direction of a layer, by name.

    `end` ends the attributes, `_l0` for example. `projected` counts the features of h per head, or
    is 0.
    """
    dense = len(cell.dense_pairs)
    own = reads_output(cell).count(False) if projected else 0
    counts = {
        "weight_ih": (len(cell.input_gates), (input_size,)),
        "weight_hh": (dense - own, (projected or dim,)),
        OWN_WEIGHT: (own, (dim,)),
        "weight_hd": (len(cell.diagonal_pairs), ()),
        "bias": (len(cell.bias_gates) if bias else 0, ()),
    }
    found = {
        name: Named(name, name + end, (heads * gates * dim, *features), (gates, heads, dim))
        for name, (gates, features) in counts.items()
        if gates
    }
    found |= {p.name: Named(p.name, p.name + end, (heads, dim)) for p in cell.params}
    if projected:
        shape, kind = (heads * projected, dim), (1, heads, projected)
        found[WEIGHT] = Named(WEIGHT, WEIGHT + end, shape, kind)
    return found


def blocks_of(named: Named, weight: Tensor) -> list[list[Tensor]]:
    """Return views of the rows of each gate and head, (D, features) or (D): by gate, by head."""
    assert named.gates is not None
    gates, heads, dim = named.gates
    by_head = weight.view(heads, gates, dim, *weight.shape[1:])
    return [[by_head[head, gate] for head in range(heads)] for gate in range(gates)]


def initialize(cell: CellSpec, named: Named, weight: Tensor) -> None:
    """Draw a weight anew, in place. Numbers are drawn gate by gate."""
    if named.name == "weight_ih":
        _draw_uniform(named, weight, math.sqrt(3 / weight.shape[-1]))
    elif named.name in ("weight_hh", OWN_WEIGHT, WEIGHT):
        for matrices in blocks_of(named, weight):
            for matrix in matrices:
                draw_orthogonal(matrix)
    elif named.name == "weight_hd":
        _draw_uniform(named, weight, 1.0)
    else:
        inits = {p.name: p.init for p in cell.params}
        weight.fill_(inits.get(named.name, 0.0))


def draw_orthogonal(matrix: Tensor, gain: float = 1.0, generator: Generator | None = None) -> None:
    """Draw an orthogonal matrix, in place."""
    # In float32 at least: torch has no QR factorisation in half precision.
    drawn = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
    matrix.copy_(nn.init.orthogonal_(drawn, gain=gain, generator=generator))


def _draw_uniform(named: Named, weight: Tensor, bound: float) -> None:
    if named.gates is None or named.gates[1] == 1:
        weight.uniform_(-bound, bound)
    else:
        drawn = torch.empty_like(weight).uniform_(-bound, bound)
        weight.copy_(to_rows(drawn.view(named.by_gate)))


def weight_of(module: nn.Module, named: Named, device: torch.device | None) -> Tensor:
    """Return a weight of a module, or what has replaced it, on a device; None for any."""
    _, attribute, shape, _ = named
    weight: Tensor | None = module._parameters.get(attribute)
    if weight is None:
        weight = getattr(module, attribute, None)
    if weight is None or weight.shape != shape or (device is not None and weight.device != device):
        weight = check_weight_of_module(attribute, weight, shape, device)
    return weight


@contextmanager
def drawn_anew(module: nn.Module, named: Named) -> Iterator[Tensor]:
    """Give a weight to be changed in place; at the end it is set, where it is no parameter."""
    weight = weight_of(module, named, None)
    if isinstance(module._parameters.get(named.attribute), nn.Parameter):
        yield weight
        return
    drawn = weight.detach().clone()
    yield drawn
    _replace_weight(module, named.attribute, drawn)


def _replace_weight(module: nn.Module, name: str, value: Tensor) -> None:
    """Set a weight through the tensors that it is computed from; raise if their kind is unknown."""
    origin = module._parameters.get(f"{name}_orig")
    if is_parametrized(module, name):
        setattr(module, name, value)  # the parametrization's right_inverse
    elif origin is not None:  # torch.nn.utils.prune, which masks it at every call
        with torch.no_grad():
            origin.copy_(value)
        mask = module._buffers.get(f"{name}_mask")
        setattr(module, name, origin if mask is None else origin * mask)
    else:
        raise TensorError(
            name,
            "a weight that is no parameter, and no parametrization of torch",
            "a parameter, or one that torch.nn.utils.parametrize computes",
            "reset_parameters() first, then what replaces the weight",
        )


class Weighted(nn.Module):
    """Base of `rnnc.RNN`: it keeps the options, and draws, finds, saves and loads the weights.

    A weight may be replaced by anything under its name: a parametrization, a buffer or a plain
    tensor.
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
        self._draws, self._mean = bool(self.cell.drawn), self.cell.mean()
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        dim = self.hidden_size // self.heads
        self._projection = projection_of(self.cell, self.proj_size, dim)
        # The features of each state.
        self._widths = {state.name: self.hidden_size for state in self.cell.states}
        self._widths[self.cell.states[0].name] = self.heads * self.proj_size or self.hidden_size
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
        return next(iter(self._widths.values())) * (2 if self.bidirectional else 1)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        with torch.no_grad():
            for own in self._weights:
                for named in own.values():
                    self._reset(named)

    def _reset(self, named: Named) -> None:
        weight = weight_of(self, named, None)
        sharding = getattr(weight, "device_mesh", None)
        if sharding is not None:
            self._reset_sharded(named, weight, sharding)
            return
        with drawn_anew(self, named) as drawn:
            initialize(self.cell, named, drawn)

    def _reset_sharded(self, named: Named, weight: Any, mesh: Any) -> None:
        """Draw the whole weight on each rank, as one process draws it; each rank keeps its rows."""
        from torch.distributed.tensor import distribute_tensor

        drawn = torch.empty(named.shape, dtype=weight.dtype, device=weight.device)
        initialize(self.cell, named, drawn)
        weight.copy_(distribute_tensor(drawn, mesh, weight.placements, src_data_rank=None))

    def _weights_on(self, device: torch.device) -> list[Tensor | None]:
        """Return all weights, which must be on a device, in the order of `LayerWeights.flat`."""
        return [
            None if named is None else weight_of(self, named, device) for named in self._in_order
        ]

    def _all_weights(self) -> list[Named]:
        return [named for named in self._in_order if named is not None]

    def _any_weight(self) -> Tensor | None:
        named = next(iter(self._all_weights()), None)
        return None if named is None else weight_of(self, named, None)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", None)
        if metadata is not None:  # metadata, as torch's own version number; no key of the dict
            metadata.setdefault(prefix[:-1], {})["cell"] = identity_of(self.cell)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        check_same_cell(local_metadata.get("cell"), self.cell, prefix)
        reorder_state_dict(self._all_weights(), state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)
