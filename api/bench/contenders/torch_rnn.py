"""torch's own RNN modules, which call cuDNN on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..inputs import Call, Inputs
from ..rows import Row
from .contender import Contender

MODULES: dict[str, tuple[str, Callable[[int, int], nn.Module]]] = {
    "lstm": ("nn.LSTM", nn.LSTM),
    "gru": ("nn.GRU", nn.GRU),
    "elman": ("nn.RNN", nn.RNN),
}


def torch_module(row: Row, dtype: str) -> Contender:
    """The module of a row's cell; with several heads, one head alone."""
    (name, make), size = MODULES[row.cell], row.head_dim

    def prepare(inputs: Inputs) -> Call:
        module = make(size, size).to(inputs.device, inputs.x.dtype)
        x = inputs.x if row.heads == 1 else inputs.draw(row.steps, row.batch, size, scale=1)
        seed = inputs.d_h[:, :, 0].contiguous()

        def run() -> Tensor:
            # cuDNN saves what a backward needs only in training mode.
            module.training = torch.is_grad_enabled()
            return module(x)[0]  # type: ignore[no-any-return]

        return Call(run, seed, [x, *module.parameters()])

    note = "" if row.heads == 1 else f"one head of {size} only"
    return Contender(name, dtype, False, "with input GEMM", prepare, note=note)
