"""Layers of other libraries, which multiply their input themselves.

They are torch's, TorchRL's, Haste's and SpeechBrain's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..inputs import DTYPES, Call, Inputs
from ..rows import Row
from .contender import Contender, Kind
from .packages import package

MODULES: dict[str, tuple[str, Callable[[int, int], nn.Module]]] = {
    "lstm": ("nn.LSTM", nn.LSTM),
    "gru": ("nn.GRU", nn.GRU),
    "elman": ("nn.RNN", nn.RNN),
}
_TORCHRL = "torchrl.modules.tensordict_module._rnn_triton"
_STATES = {"lstm": 2, "gru": 1}
_HASTE_DTYPES = {
    "lstm": ("float32",),
    "gru": ("float32", "float16"),
    "layer_norm_lstm": ("float32",),
    "indrnn": ("float32",),
}


def torch_module(row: Row, dtype: str) -> Contender:
    """Torch's module of a row's cell, which calls cuDNN on a GPU."""
    return _layer(MODULES[row.cell][0], row, dtype, _prepare_torch)


def other_layers(kind: Kind, row: Row, dtype: str) -> Iterator[Contender]:
    """The layer of a kind for a row's cell, in the dtypes that it has.

    TorchRL's kernels in Triton are called directly, because its modules add the host's time.
    Haste's are cuBLAS and a kernel per step. SpeechBrain's SLi-GRU is a loop of torch.
    """
    name, prepare, dtypes, *differs = _LAYERS[kind]
    if dtype in dtypes.get(row.cell, ()):
        yield _layer(name, row, dtype, prepare, *differs)


def _layer(
    name: str, row: Row, dtype: str, prepare: Callable[[Inputs], Call], *differs: str
) -> Contender:
    """A layer of a row; where the row has several heads, one head alone."""
    note = ", ".join(differs if row.heads == 1 else (f"one head of {row.head_dim} only", *differs))
    return Contender(name, dtype, False, "with input GEMM", prepare, note=note)


def torchrl_run(
    cell: str, weights: Sequence[Tensor], like: Tensor, reset: Tensor | None = None
) -> Callable[[Tensor], Tensor]:
    """A call of TorchRL's kernel from zero states.

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
    kernels = package(_TORCHRL, "TorchRL", "pip install torchrl", like.device.type)
    run = {"lstm": kernels.lstm_triton, "gru": kernels.gru_triton}[cell]
    # States are read where a row starts anew.
    states = [torch.zeros_like(like) for _ in range(_STATES[cell])]
    if reset is None:
        reset = torch.zeros(like.shape[:2], dtype=torch.bool, device=like.device)
    return lambda x: run(x, *states, *weights, reset)[0]


def haste_layer(cell: str, size: int, device: str, dtype: str) -> Any:
    """Haste's module of a cell that it has, with as many features as units.

    `benchmarks/peers/haste.py` of rnnc's repository builds it; no package index has it.

    Raises:
        BenchError: Haste cannot be imported, or there is no GPU.
    """
    build = "python benchmarks/peers/haste.py in rnnc's repository"
    haste = package("haste_pytorch", "Haste", build, device)
    names = {
        "lstm": "LSTM",
        "gru": "GRU",
        "layer_norm_lstm": "LayerNormLSTM",
        "indrnn": "IndRNN",
    }
    layer = getattr(haste, names[cell])(size, size)
    return layer.to(device, DTYPES[dtype])


def _prepare_torch(inputs: Inputs) -> Call:
    size = inputs.row.head_dim
    module = MODULES[inputs.row.cell][1](size, size).to(inputs.device, inputs.x.dtype)
    return _module_call(module, inputs)


def _prepare_haste(inputs: Inputs) -> Call:
    row = inputs.row
    return _module_call(haste_layer(row.cell, row.head_dim, inputs.device, inputs.dtype), inputs)


def _prepare_speechbrain(inputs: Inputs) -> Call:
    row, size = inputs.row, inputs.row.head_dim
    asked = "speechbrain.nnet.RNN", "SpeechBrain", "pip install speechbrain"
    x = inputs.draw(row.batch, row.steps, size, scale=1)
    layer = package(*asked).SLiGRU(size, x.shape, ff_normalization="layernorm").to(x)
    seed = inputs.d_h[:, :, 0].transpose(0, 1).contiguous()
    return Call(lambda: layer(x)[0], seed, [x, *layer.parameters()])


def _module_call(module: Any, inputs: Inputs) -> Call:
    """A call of a module of (T, B, features)."""
    row = inputs.row
    x = inputs.x if row.heads == 1 else inputs.draw(row.steps, row.batch, row.head_dim, scale=1)

    def run() -> Tensor:
        # cuDNN and Haste save what a backward needs only in training mode.
        module.training = torch.is_grad_enabled()
        return module(x)[0]  # type: ignore[no-any-return]

    return Call(run, inputs.d_h[:, :, 0].contiguous(), [x, *module.parameters()])


def _prepare_torchrl(inputs: Inputs) -> Call:
    row = inputs.row
    x = inputs.draw(row.batch, row.steps, row.head_dim, scale=1)
    seed = inputs.d_h[:, :, 0].transpose(0, 1).contiguous()
    module: nn.Module = MODULES[row.cell][1](row.head_dim, row.head_dim).to(x)
    weights = list(module.parameters())
    run = torchrl_run(row.cell, weights, seed)
    return Call(lambda: run(x), seed, [x, *weights])


# What each kind is, and the dtypes of its cells.
_LAYERS: dict[Kind, Any] = {
    "torchrl": ("TorchRL", _prepare_torchrl, dict.fromkeys(_STATES, ("float32",))),
    "haste": ("Haste", _prepare_haste, _HASTE_DTYPES),
    "speechbrain": (
        "SpeechBrain",
        _prepare_speechbrain,
        {"sligru": tuple(DTYPES)},
        "a layer norm of its input product too",
    ),
}
