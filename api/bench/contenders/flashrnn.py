"""FlashRNN's kernels, called with the memory layouts that they need."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ...runtime.cuda.driver.device import device_limits
from ..inputs import Call, Inputs
from ..rows import BenchError, Row
from .contender import Contender, Kind

# FlashRNN's gates: with input, with R, with bias.
CELLS = {"lstm": (4, 4, 4), "slstm": (4, 4, 4), "gru": (3, 3, 4), "elman": (1, 1, 1)}
# The memory order that each backend needs, as a permutation of our (B, T, N, D, G), and the
# permutation back to (B, T, G, N, D), its argument's shape. It copies any other order in each call.
_ORDERS = {
    "cuda_fused": ((1, 0, 2, 3, 4), (1, 0, 4, 2, 3)),  # T B N D G
    "cuda": ((1, 0, 2, 4, 3), (1, 0, 3, 2, 4)),  # T B N G D
    "triton_fused": ((0, 1, 4, 2, 3), (0, 1, 2, 3, 4)),  # B T G N D
}
_TRITON_LARGEST = 64
_NVCC_SECONDS = 60


def flashrnn_kernels(row: Row, dtype: str, kinds: Sequence[Kind]) -> Iterator[Contender]:
    """The backends of FlashRNN that were asked for and that have the row's cell."""
    backends = []
    if "flashrnn" in kinds:
        # It has no other kernels for a GRU than the alternating ones.
        backends.append("cuda" if row.cell == "gru" else "cuda_fused")
        if row.head_dim <= _TRITON_LARGEST and row.cell in ("lstm", "slstm"):
            backends.append("triton_fused")
    if "flashrnn-alternating" in kinds and "cuda" not in backends:
        backends.append("cuda")
    for backend in backends:
        name, run = f"FlashRNN {backend}", _flashrnn_call(backend)
        start = 5 if backend == "triton_fused" else _NVCC_SECONDS
        yield Contender(name, dtype, False, "wx ready", run, start=start)
    if "flashrnn-packed" in kinds:
        backend = "cuda" if row.cell == "gru" else "cuda_fused"
        name, run = f"FlashRNN {backend}, wx packed", _flashrnn_call(backend, packed=True)
        note = "wx is stored as (B, T, G, N, D), and is copied to the order it needs"
        yield Contender(name, dtype, False, "wx ready", run, note=note, start=_NVCC_SECONDS)


def _flashrnn_call(backend: str, packed: bool = False) -> Callable[[Inputs], Call]:
    """A call with wx in the order that the backend needs, or `packed` as FlashRNN documents it."""
    memory, order = ((0, 1, 4, 2, 3), (0, 1, 2, 3, 4)) if packed else _ORDERS[backend]

    def prepare(inputs: Inputs) -> Call:
        if importlib.util.find_spec("flashrnn") is None:
            raise BenchError("no module flashrnn", "FlashRNN", "pip install flashrnn")
        flashrnn = _imported()
        row, function = inputs.row, inputs.row.cell
        _, recurrent, biases = CELLS[function]
        wx = inputs.wx.detach().permute(memory).contiguous().permute(order).requires_grad_()
        R = inputs.R
        assert R is not None
        assert len(R) == recurrent
        b = inputs.draw(biases, row.heads, row.head_dim)

        def run() -> Tensor:
            states, _ = flashrnn(wx, R, b, function=function, backend=backend, dtype=inputs.dtype)
            return states  # type: ignore[no-any-return] # (S, B, T, N, D)

        # Gradients of all states: for one alone, torch would fill the others with zeros each time.
        with torch.no_grad():
            seed = torch.randn_like(run())
        return Call(run, seed, [wx, R, b])

    return prepare


def _imported() -> Callable[..., Any]:
    """FlashRNN's function; its query of the GPU asks for fields that CUDA 13 no longer has."""
    function: Callable[..., Any] = importlib.import_module("flashrnn").flashrnn
    module: Any = sys.modules.get(getattr(function, "__module__", ""))
    if hasattr(module, "get_gpu_info"):
        module.get_gpu_info = _properties
    return function


def _properties(device_id: int) -> dict[str, int]:
    limits = device_limits(device_id)
    return {
        "maxThreadsPerBlock": limits.threads_per_block,
        "regsPerMultiprocessor": limits.registers,
        "multiProcessorCount": limits.multiprocessors,
        "sharedMemPerBlockOptin": limits.shared_per_block,
    }
