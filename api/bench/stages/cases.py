"""The cases of `rnnc bench --stages`: cells with stages, and who else runs them."""

from __future__ import annotations

from ..contenders.kinds import Kind
from ..modules.cases import among
from ..peers.cases import PeerCase, Published
from ..rows import Pair, Row

_LOOPS: tuple[Kind, ...] = ("torch-loop", "compile-graph")
# 28.273 and 62.608 ms for 512 steps.
_TORCHRL = Published("TorchRL", Pair(55.2, 122.3), "GB200, pytorch/rl#4160")
_HEADS = ((12, 64), (3, 256), (1, 768))


def stage_cases(device: str, words: str | None = None) -> tuple[PeerCase, ...]:
    """The cases of a device, "cpu" or "cuda", that a word of the command line names.

    Args:
        device: where the calls run.
        words: as `peer_cases` takes them.

    Raises:
        BenchError: no case has such a name or number.

    Example:
        >>> from rnnc.bench.stages.cases import stage_cases
        >>> print(*stage_cases("cuda", "block"))
        block_gru, 8 x 64, batch 16, 512 steps, bfloat16
    """
    return among(_CPU if device == "cpu" else _CUDA, words, "lem")


def _case(row: Row, dtype: str, *kinds: Kind, published: Published | None = None) -> PeerCase:
    everyone: tuple[Kind, ...] = ("auto", "resets", *_LOOPS, *kinds)
    return PeerCase(row, (dtype,), everyone, float32="ieee", published=published)


_CUDA: tuple[PeerCase, ...] = (
    *(
        _case(Row(cell, *heads), "bfloat16")
        for cell in ("gru_reset_first", "joint_norm_lstm", "lem")
        for heads in _HEADS
    ),
    _case(Row("block_gru", 8, 64, steps=512), "bfloat16", published=_TORCHRL),
    # Cells of other libraries, as they run them: with exact products of float32.
    _case(Row("layer_norm_lstm", 1, 256), "float32", "module", "haste"),
    _case(Row("sligru", 1, 512), "float32", "module", "speechbrain"),
)
_CPU: tuple[PeerCase, ...] = (
    _case(Row("gru_reset_first", 2, 32, 4, 48), "float32"),
    _case(Row("sligru", 1, 32, 4, 48), "float32", "module", "speechbrain"),
)
