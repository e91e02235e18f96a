"""TorchRL's GRU and LSTM in Triton, called directly: its modules add the host's time to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from ..inputs import Call, Inputs
from ..rows import Row
from .contender import Contender
from .packages import package
from .torch_rnn import MODULES

_KERNELS = "torchrl.modules.tensordict_module._rnn_triton"
_STATES = {"lstm": 2, "gru": 1}


def torchrl_kernels(row: Row, dtype: str) -> Iterator[Contender]:
    """The kernel of a row's cell; with several heads, one head alone.

    Args:
        row: the sizes.
        dtype: a key of `DTYPES`; the kernels take float32 alone.
    """
    if row.cell in _STATES and dtype == "float32":
        note = "" if row.heads == 1 else f"one head of {row.head_dim} only"
        yield Contender("TorchRL", dtype, False, "with input GEMM", _prepare, note=note)


def torchrl_run(
    cell: str, weights: Sequence[Tensor], like: Tensor, reset: Tensor | None = None
) -> Callable[[Tensor], Tensor]:
    """A call of its kernel from zero states.

    Args:
        cell: "lstm" or "gru".
        weights: of torch's module, in torch's order.
        like: a tensor as the output, (B, T, H).
        reset: (B, T), whether a row starts anew before a step; None for no resets.

    Returns:
        A function of x, (B, T, features), that returns h at all steps, (B, T, H).

    Raises:
        BenchError: TorchRL cannot be imported, or there is no GPU.
    """
    kernels = package(_KERNELS, "TorchRL", "pip install torchrl", like.device.type)
    run = {"lstm": kernels.lstm_triton, "gru": kernels.gru_triton}[cell]
    # States are read where a row starts anew.
    states = [torch.zeros_like(like) for _ in range(_STATES[cell])]
    if reset is None:
        reset = torch.zeros(like.shape[:2], dtype=torch.bool, device=like.device)
    return lambda x: run(x, *states, *weights, reset)[0]


def _prepare(inputs: Inputs) -> Call:
    row = inputs.row
    x = inputs.draw(row.batch, row.steps, row.head_dim, scale=1)
    seed = inputs.d_h[:, :, 0].transpose(0, 1).contiguous()
    module: nn.Module = MODULES[row.cell][1](row.head_dim, row.head_dim).to(x)
    weights = list(module.parameters())
    run = torchrl_run(row.cell, weights, seed)
    return Call(lambda: run(x), seed, [x, *weights])
