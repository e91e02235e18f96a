"""Tensors of a single step as its kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...call.call import Call
from ...call.plain import check_memory
from ...call.tensors import SomeTensors
from ..products.rearrange import CudaMoves

_WIDEST_ACCESS = 16  # bytes


def weights_by_gate(call: Call, weights: SomeTensors) -> SomeTensors:
    """Return weights of several heads, as `Form.of_step` gives them, as gate, head, unit."""
    with CudaMoves() as moves:
        flat = call.form.flat(weights, call.parts)
        return [None if weight is None else moves.packed(weight) for weight in flat]


def packed_places(tensors: Sequence[Any]) -> tuple[Sequence[Any], list[int]]:
    """Return tensors without gaps, aligned and with memory, copied if need be, and addresses."""
    places = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    kept = tensors
    for number, tensor in enumerate(tensors):
        if tensor is None or (tensor.is_contiguous() and not places[number] % _WIDEST_ACCESS):
            continue
        copy = tensor.clone(memory_format=torch.contiguous_format)
        kept = [*kept[:number], copy, *kept[number + 1 :]]
        places[number] = copy.data_ptr()
    if not all(places):
        for tensor in tensors:
            if tensor is not None:
                check_memory("a tensor of the step", tensor)
    return kept, places
