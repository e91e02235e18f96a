"""Who takes part in `rnnc bench`: rnnc's variants and module, torch's own RNNs, FlashRNN, loops."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ..cellspec.cell import CellSpec
from ..codegen.plan import VARIANTS, Variant
from ..runtime.module.rnn import RNN
from ..runtime.scan import Backend, scan
from .eager_loops import has_loop, plain_loop
from .inputs import Call, Inputs
from .rows import SHORT_STEPS, BenchError, Row

# What a time includes: wx is ready, or the input GEMM and its gradients are part of it.
Terms = Literal["wx ready", "with input GEMM"]
Kind = Literal[
    "scan", "module", "nn", "flashrnn", "flashrnn-alternating", "flashrnn-packed", "loop", "compile"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_KINDS: tuple[Kind, ...] = ("scan", "module", "nn", "flashrnn")
_TORCH: dict[str, tuple[str, Callable[[int, int], nn.Module]]] = {
    "lstm": ("nn.LSTM", nn.LSTM),
    "gru": ("nn.GRU", nn.GRU),
    "elman": ("nn.RNN", nn.RNN),
}
# FlashRNN's gates: with input, with R, with bias.
_FLASHRNN = {"lstm": (4, 4, 4), "slstm": (4, 4, 4), "gru": (3, 3, 4), "elman": (1, 1, 1)}
# What each backend of FlashRNN wants in memory, as an order of our (B, T, N, D, G), and its inverse
# for the (B, T, G, N, D) that it is called with. In any other order it copies in every call.
_FLASHRNN_ORDERS = {
    "cuda_fused": ((1, 0, 2, 3, 4), (1, 0, 4, 2, 3)),  # T B N D G
    "cuda": ((1, 0, 2, 4, 3), (1, 0, 3, 2, 4)),  # T B N G D
    "triton_fused": ((0, 1, 4, 2, 3), (0, 1, 2, 3, 4)),  # B T G N D
}
_TRITON_LARGEST = 64
_NVCC_SECONDS = 60


@dataclass(frozen=True)
class Contender:
    """One of those who are measured.

    Attributes:
        name: for people.
        dtype: of its tensors.
        ours: whether it is rnnc's.
        terms: what its time includes.
        prepare: makes the call; whatever it raises is reported as the contender's failure.
        variant: rnnc's plan, where it has one.
        note: what makes its work another than the row's; such a one is nobody's best peer.
        start: seconds that its first call takes, where it compiles that long.
    """

    name: str
    dtype: str
    ours: bool
    terms: Terms
    prepare: Callable[[Inputs], Call]
    variant: Variant | None = None
    note: str = ""
    start: float = 0


def kinds_named(words: str) -> list[Kind]:
    """The kinds of contenders that a word of the command line means.

    Args:
        words: such as "scan,nn".

    Raises:
        BenchError: there is no such kind.

    Example:
        >>> from rnnc.bench.contenders import kinds_named
        >>> kinds_named("scan,nn")
        ['scan', 'nn']
    """
    found: list[Kind] = []
    for word in (w.strip() for w in words.split(",")):
        match = next((k for k in KINDS if k == word), None)
        if match is None:
            raise BenchError(
                f"contender {word!r}", f"some of {', '.join(KINDS)}", "--contenders scan,nn"
            )
        found.append(match)
    return found


def contenders_for(
    row: Row,
    cell: CellSpec,
    device: str,
    dtypes: Sequence[str],
    kinds: Sequence[Kind],
    peer_dtypes: Sequence[str] = (),
) -> list[Contender]:
    """All who can take part in a row; who compiles for a minute does in the first dtype alone.

    Args:
        row: the sizes.
        cell: the row's cell.
        device: "cpu" or "cuda".
        dtypes: names of dtypes.
        kinds: who may take part. Loops always do at few steps.
        peer_dtypes: names of further dtypes, for torch's RNNs alone.

    Example:
        >>> import rnnc
        >>> from rnnc.bench.contenders import contenders_for
        >>> from rnnc.bench.rows import rows_named
        >>> row, kinds = rows_named("6")[0], ["scan", "nn"]
        >>> found = contenders_for(row, rnnc.cells.lstm, "cuda", ["float16"], kinds)
        >>> ", ".join(c.name.removeprefix("rnnc ") for c in found)
        'auto, block, cluster, grid, alternating, nn.LSTM'
    """
    found: list[Contender] = []
    more = [d for d in peer_dtypes if d not in dtypes]
    for dtype in dtypes:
        if "scan" in kinds:
            found += _ours(dtype, device)
        if "module" in kinds:
            found.append(Contender("rnnc.RNN", dtype, True, "with input GEMM", _module))
        if "nn" in kinds and row.cell in _TORCH:
            found.append(_torch(row, dtype))
            found += [_torch(row, d) for d in more if dtype == dtypes[-1]]
        if dtype == dtypes[0] and device == "cuda" and row.cell in _FLASHRNN:
            found += _flashrnn(row, dtype, kinds)
        if "loop" in kinds or row.steps <= SHORT_STEPS:
            run = _scan("reference", "auto")
            found.append(Contender("eager loop", dtype, False, "wx ready", run))
        if "compile" in kinds and row.steps <= SHORT_STEPS and dtype == dtypes[0]:
            found.append(Contender("torch.compile of a loop", dtype, False, "wx ready", _compiled))
    return found


def _ours(dtype: str, device: str) -> Iterator[Contender]:
    if device == "cpu":
        yield Contender("rnnc", dtype, True, "wx ready", _scan("auto", "auto"))
        return
    for variant in VARIANTS:
        run = _scan("cuda", variant)
        yield Contender(f"rnnc {variant}", dtype, True, "wx ready", run, variant)


def _scan(backend: Backend, variant: Variant) -> Callable[[Inputs], Call]:
    def prepare(inputs: Inputs) -> Call:
        def run() -> Tensor:
            over_time, _ = scan(
                inputs.cell,
                inputs.wx,
                inputs.R,
                inputs.b,
                R_diag=inputs.R_diag,
                params=inputs.params,
                backend=backend,
                variant=variant,
            )
            return over_time[0]

        return Call(run, inputs.d_h.transpose(0, 1), inputs.leaves())

    return prepare


def _module(inputs: Inputs) -> Call:
    row, x = inputs.row, inputs.x
    sizes = (row.hidden, row.hidden)
    module = RNN(inputs.cell, *sizes, heads=row.heads, device=x.device, dtype=x.dtype)
    return Call(lambda: module(x)[0], inputs.d_h.flatten(2), [x, *module.parameters()])


def _torch(row: Row, dtype: str) -> Contender:
    (name, make), size = _TORCH[row.cell], row.head_dim

    def prepare(inputs: Inputs) -> Call:
        module = make(size, size).to(inputs.device, inputs.x.dtype)
        x = inputs.x if row.heads == 1 else inputs.draw(row.steps, row.batch, size, scale=1)
        seed = inputs.d_h[:, :, 0].contiguous()

        def run() -> Tensor:
            # cuDNN keeps what a backward needs only in training.
            module.training = torch.is_grad_enabled()
            return module(x)[0]  # type: ignore[no-any-return]

        return Call(run, seed, [x, *module.parameters()])

    note = "" if row.heads == 1 else f"one head of {size} only"
    return Contender(name, dtype, False, "with input GEMM", prepare, note=note)


def _flashrnn(row: Row, dtype: str, kinds: Sequence[Kind]) -> Iterator[Contender]:
    backends = []
    if "flashrnn" in kinds:
        # Of a GRU it makes its alternating kernels in either case.
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
        note = "wx lies as (B, T, G, N, D), and is copied into its own order"
        yield Contender(name, dtype, False, "wx ready", run, note=note, start=_NVCC_SECONDS)


def _flashrnn_call(backend: str, packed: bool = False) -> Callable[[Inputs], Call]:
    """A call of FlashRNN, on a wx in the memory order that it wants, or `packed` as its own
    documentation has it.
    """
    memory, order = ((0, 1, 4, 2, 3), (0, 1, 2, 3, 4)) if packed else _FLASHRNN_ORDERS[backend]

    def prepare(inputs: Inputs) -> Call:
        if importlib.util.find_spec("flashrnn") is None:
            raise BenchError("no module flashrnn", "FlashRNN", "pip install flashrnn")
        flashrnn = importlib.import_module("flashrnn").flashrnn
        row, function = inputs.row, inputs.row.cell
        _, recurrent, biases = _FLASHRNN[function]
        wx = inputs.wx.detach().permute(memory).contiguous().permute(order).requires_grad_()
        R = inputs.R
        assert R is not None
        assert len(R) == recurrent
        b = inputs.draw(biases, row.heads, row.head_dim)

        def run() -> Tensor:
            states, _ = flashrnn(wx, R, b, function=function, backend=backend, dtype=inputs.dtype)
            return states  # type: ignore[no-any-return] # (S, B, T, N, D)

        # All states at once: of one alone torch would make the others' zeros in every backward.
        with torch.no_grad():
            seed = torch.randn_like(run())
        return Call(run, seed, [wx, R, b])

    return prepare


def _compiled(inputs: Inputs) -> Call:
    wx, R, cell = inputs.wx, inputs.R, inputs.row.cell
    if R is None or not has_loop(cell):
        raise BenchError(
            f"no plain loop of {cell}", "lstm, slstm, gru or elman", "another --contenders"
        )
    loop = torch.compile(plain_loop, fullgraph=True, dynamic=False)
    return Call(lambda: loop(cell, wx, R), inputs.d_h.transpose(0, 1), [wx, R])
