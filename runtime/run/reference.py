"""Calls by the reference: layer by layer, by operations that modes and autograd see."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..call.call import Tensors
from ..call.layer_call import Choice, check_words
from ..call.marks import outside_of_graphs
from ..call.masks import masks_by_torch
from ..call.settings import Asked, Settings
from ..call.tensors import ScanInputs, States, inputs_at
from ..check.scan import check_scan
from ..targets.reference import scan_reference
from .by_layer import run_by_layer

# Torch cannot trace the functions of a cell as text, and would break the graph at each of them.
_outside_of_graphs = outside_of_graphs(scan_reference)


def run_reference(
    settings: Settings, tensors: Tensors, asked: Asked
) -> tuple[list[Tensor], States]:
    """Run all layers by the reference; arguments and results are as in `run_call`."""
    check_words(settings.choice)
    x, ragged = tensors.x, tensors.ragged
    sizes = (x.shape[0], x.shape[1]) if asked.takes_wx else (x.shape[1], x.shape[0])
    made = None
    if ragged is not None:
        made = masks_by_torch(ragged, sizes, x.device, settings.reverses)

    def scan(
        choice: Choice, index: int, wx: Tensor, first: States, weights: tuple[Any, ...]
    ) -> tuple[States, States]:
        masks, plane = None, (settings.heads, settings.dim)
        if ragged is not None and made is not None:
            masks = made.at(index, ragged.reset_to, plane, choice.reverse)
        R, b, R_diag, params = weights
        given = inputs_at(tensors.unweighted, index)
        inputs = ScanInputs(wx, R, b, first, R_diag, params, masks, given)
        if torch.compiler.is_compiling():
            return _outside_of_graphs(settings.cell, inputs, choice.reverse is True)
        check_scan(settings.cell, inputs)  # a module's weights may differ in dtype
        return scan_reference(settings.cell, inputs, choice.reverse is True)

    return run_by_layer(settings, tensors, asked, scan)
