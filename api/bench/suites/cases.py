"""The cases of `rnnc bench --peers`, `--stages` and `--scans`, the most asked for first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..cases import Published, RowCase, among
from ..contenders.contender import Kind
from ..contenders.ours import RESETS
from ..rows import Pair, Row

UNITS = 768
STEPS = 1024
_BATCH = 16


def peer_cases(device: str, words: str | None = None) -> tuple[RowCase, ...]:
    """Sizes that vary one at a time.

    Args:
        device: "cpu" or "cuda".
        words: a part of their names, or their numbers as in "1-3"; None for all.

    Raises:
        BenchError: there is no such case.

    Example:
        >>> from rnnc.bench.suites.cases import peer_cases
        >>> sorted({case.row.head_dim for case in peer_cases("cuda") if case.row.hidden == 768})
        [16, 32, 64, 128, 256, 384, 768]
    """
    return among(_PEERS_ON_CPU if device == "cpu" else _PEERS, words, "gru")


def stage_cases(device: str, words: str | None = None) -> tuple[RowCase, ...]:
    """Cells with stages, and who else runs them; arguments and errors as of `peer_cases`.

    Example:
        >>> from rnnc.bench.suites.cases import stage_cases
        >>> print(*stage_cases("cuda", "block"))
        block_gru, 8 x 64, batch 16, 512 steps, bfloat16
    """
    return among(_STAGES_ON_CPU if device == "cpu" else _STAGES, words, "lem")


def scan_cases(device: str, words: str | None = None) -> tuple[RowCase, ...]:
    """Recurrences that memory alone should limit; arguments and errors as of `peer_cases`.

    Example:
        >>> from rnnc.bench.suites.cases import scan_cases
        >>> [case.row.steps for case in scan_cases("cuda", "hgrn")]
        [16384, 16384, 65536, 131072, 131072]
    """
    return among(_SCANS_ON_CPU if device == "cpu" else _SCANS, words, "hgrn")


def _half(heads: int, dim: int, *more: Kind, batch: int = _BATCH, steps: int = STEPS) -> RowCase:
    """An LSTM in bfloat16, and torch's in float16 too, for which cuDNN has faster kernels."""
    kinds: tuple[Kind, ...] = ("auto", "module", "nn", "flashrnn", "attention", "fla")
    kinds += ("accelerated-scan", *(("fla-gla",) if dim == 64 else ()), *more)
    return RowCase(Row("lstm", heads, dim, batch, steps), ("bfloat16",), kinds, ("float16",))


def _single(cell: str, dim: int, batch: int, steps: int) -> Iterator[RowCase]:
    """A layer of one head as torch's users have it, and with exact products, as Haste has them."""
    row = Row(cell, 1, dim, batch, steps)
    # TorchRL's kernels for larger layers compile for minutes.
    own: tuple[Kind, ...] = ("torchrl",) if dim <= 128 else ()
    yield RowCase(row, ("float32",), ("auto", "module", "nn", *own))
    yield RowCase(row, ("float32",), ("auto", "module", "nn", "haste"), float32="ieee")


def _without_product(heads: int, dim: int, batch: int, steps: int) -> RowCase:
    row = Row("hgrn", heads, dim, batch, steps)
    return RowCase(row, ("bfloat16",), ("auto", "attention", "fla", "accelerated-scan"))


_PEERS: tuple[RowCase, ...] = (
    _half(12, 64, "compile-step"),
    _half(1, UNITS),
    # The layers that TorchRL and Haste have kernels for.
    *_single("gru", 64, 128, 64),
    *_single("lstm", 128, 64, 128),
    *_single("gru", 512, 64, 256),
    *_single("lstm", 512, 64, 256),
    RowCase(Row("gru", 1, 512, 64, 256), ("float16",), ("auto", "module", "nn", "haste")),
    # Recurrences without a product of the state.
    _without_product(12, 64, _BATCH, STEPS),
    _without_product(4, 128, _BATCH, 16384),
    _without_product(4, 512, 1, 65536),
    # Over head dim, at 768 units in all.
    *(_half(UNITS // dim, dim) for dim in (16, 32, 128, 256, 384)),
    # Over batch and over length.
    *(_half(12, 64, batch=batch) for batch in (1, 2, 64, 128)),
    *(_half(12, 64, steps=steps) for steps in (128, 512, 4096, 8192)),
    *(_half(1, UNITS, batch=batch) for batch in (1, 2, 64, 128)),
    *(_half(1, UNITS, steps=steps) for steps in (128, 512, 4096, 8192)),
    # Last: compiling an unrolled loop takes long.
    RowCase(Row("lstm", 12, 64, _BATCH, 32), ("bfloat16",), ("auto", "loop", "compile")),
)
_PEERS_ON_CPU: tuple[RowCase, ...] = (
    RowCase(
        Row("lstm", 1, 64, 8, 32),
        ("float32",),
        ("auto", "module", "nn", "torchrl", "haste", "attention", "loop"),
        float32="ieee",
    ),
    RowCase(Row("hgrn", 4, 64, 8, 64), ("float32",), ("auto", "fla", "accelerated-scan")),
    RowCase(Row("gru", 1, 64, 8, 32), ("float32",), ("auto", "module", "nn", "attention")),
)


def _staged(row: Row, dtype: str, *kinds: Kind, published: Published | None = None) -> RowCase:
    everyone: tuple[Kind, ...] = ("auto", "resets", "torch-loop", "compile-graph", *kinds)
    return RowCase(row, (dtype,), everyone, float32="ieee", published=published)


# 28.273 and 62.608 ms for 512 steps.
_TORCHRL = Published("TorchRL", Pair(55.2, 122.3), "GB200, pytorch/rl#4160")
_STAGES: tuple[RowCase, ...] = (
    *(
        _staged(Row(cell, *heads), "bfloat16")
        for cell in ("gru_reset_first", "joint_norm_lstm", "lem")
        for heads in ((12, 64), (3, 256), (1, 768))
    ),
    _staged(Row("block_gru", 8, 64, steps=512), "bfloat16", published=_TORCHRL),
    # Cells of other libraries, as they run them: with exact products of float32.
    _staged(Row("layer_norm_lstm", 1, 256), "float32", "module", "haste"),
    _staged(Row("sligru", 1, 512), "float32", "module", "speechbrain"),
)
_STAGES_ON_CPU: tuple[RowCase, ...] = (
    _staged(Row("gru_reset_first", 2, 32, 4, 48), "float32"),
    _staged(Row("sligru", 1, 32, 4, 48), "float32", "module", "speechbrain"),
)


def _scan(
    cell: str, batch: int, steps: int, heads: int, dim: int, *more: Kind, dtype: str = "bfloat16"
) -> RowCase:
    kinds: tuple[Kind, ...] = ("scan", "fla", "accelerated-scan", *more)
    row, ways = Row(cell, heads, dim, batch, steps), ("walk", "scan", "auto")
    # Haste has an IndRNN in float32 alone.
    return RowCase(row, (dtype,), kinds, ("float32",), variants=ways, uncached=True)


def _with_resets(case: RowCase) -> RowCase:
    return replace(case, kinds=("scan",), resets=RESETS)


_LONG, _ONE_ROW = _scan("hgrn", 16, 16384, 4, 128), _scan("hgrn", 1, 131072, 1, 256)
_MINLSTM, _RG_LRU = _scan("minlstm", 16, 1024, 12, 64), _scan("rg_lru", 4, 8192, 1, 2560)
_HIGHWAY = replace(_scan("mingru_highway", 512, 64, 1, 128), kinds=("scan",))
_SCANS: tuple[RowCase, ...] = (
    _LONG,
    _with_resets(_LONG),
    _scan("hgrn", 1, 65536, 4, 512),
    _scan("mingru", 16, 1024, 12, 64),
    _MINLSTM,
    _with_resets(_MINLSTM),
    _HIGHWAY,
    _with_resets(_HIGHWAY),
    _scan("qrnn", 64, 1024, 1, 1024),
    _scan("indrnn", 16, 1024, 1, 768, "haste"),
    _scan("lru", 16, 16384, 1, 512),
    _RG_LRU,
    _with_resets(_RG_LRU),
    _ONE_ROW,
    _with_resets(_ONE_ROW),
)
_SCANS_ON_CPU: tuple[RowCase, ...] = (
    _scan("mingru", 4, 64, 2, 32, dtype="float32"),
    _with_resets(_scan("mingru_highway", 8, 64, 1, 32, dtype="float32")),
)
