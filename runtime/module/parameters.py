"""Weights of `rnnc.RNN` as parameters of a module: drawn, found, saved and loaded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ...cellspec.cell import CellSpec
from ..call.forms import Named
from .earlier import reorder_state_dict
from .identity import check_same_cell, identity_of
from .weights import drawn_anew, initialize, weight_of


class Weighted(nn.Module):
    """Base of `rnnc.RNN`: it draws, finds, saves and loads the weights.

    A weight may be replaced by anything under its name: a parametrization, a buffer or a plain
    tensor.
    """

    cell: CellSpec
    # The weights that each direction of each layer was built with, by name.
    _weights: list[dict[str, Named]]
    # The same in the order of `LayerWeights.flat`.
    _in_order: list[Named | None]

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
