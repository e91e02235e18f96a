"""Which contenders take part in a row of `rnnc bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ..rows import SHORT_STEPS, Row
from . import flashrnn, layers
from .attention import attention
from .contender import Contender, Kind
from .eager_loops import loops
from .ours import eager_loop, module, scan_with_resets, scans, scans_with_zoneout
from .scans_over_time import accelerated_scan, fla_gla, fla_hgrn

# What each kind has for the sizes and the dtype of a row.
_OTHERS: dict[Kind, Callable[[Row, str], Iterator[Contender]]] = {
    "torchrl": partial(layers.other_layers, "torchrl"),
    "haste": partial(layers.other_layers, "haste"),
    "speechbrain": partial(layers.other_layers, "speechbrain"),
    "attention": attention,
    "fla": fla_hgrn,
    "fla-gla": fla_gla,
    "accelerated-scan": accelerated_scan,
}


def contenders_for(
    row: Row,
    device: str,
    dtypes: Sequence[str],
    kinds: Sequence[Kind],
    peer_dtypes: Sequence[str] = (),
    variants: Sequence[str] = (),
    resets: float = 0.0,
) -> list[Contender]:
    """All contenders of a row; those that compile for a minute run in the first dtype alone.

    Args:
        row: the cell and the sizes.
        device: "cpu" or "cuda".
        dtypes: of the contenders.
        kinds: of contenders.
        peer_dtypes: as `RowCase` has them; so are the next two.
        variants: kinds of plans of the contenders "scan".
        resets: the share of all steps at which a row of theirs starts anew.

    Example:
        >>> from rnnc.bench.contenders.choice import contenders_for
        >>> from rnnc.bench.rows import rows_named
        >>> row, kinds = rows_named("6")[0], ["scan", "nn"]
        >>> found = contenders_for(row, "cuda", ["float16"], kinds)
        >>> ", ".join(c.name.removeprefix("rnnc ") for c in found)
        'auto, block, cluster, grid, walk, scan, alternating, nn.LSTM'
    """
    found: list[Contender] = []
    more = [d for d in peer_dtypes if d not in dtypes]
    for dtype in dtypes:
        if "scan" in kinds:
            found += scans(dtype, device, variants, resets)
        elif "auto" in kinds:
            found.append(next(scans(dtype, device)))
        if "resets" in kinds:
            found.append(scan_with_resets(dtype))
        if "zoneout" in kinds:
            found += scans_with_zoneout(dtype)
        if "module" in kinds:
            found.append(module(dtype))
        if "nn" in kinds and row.cell in layers.MODULES:
            found.append(layers.torch_module(row, dtype))
            found += [layers.torch_module(row, d) for d in more if dtype == dtypes[-1]]
        if dtype == dtypes[0] and device == "cuda" and row.cell in flashrnn.CELLS:
            found += flashrnn.flashrnn_kernels(row, dtype, kinds)
        for kind, make in _OTHERS.items():
            if kind in kinds:
                # In its own dtype, where it has kernels for no dtype that was asked for.
                tried = (list(make(row, each)) for each in (dtype, *more))
                found += next(filter(None, tried), [])
        if "loop" in kinds or row.steps <= SHORT_STEPS:
            found.append(eager_loop(dtype))
        if dtype == dtypes[0]:
            found += loops(row, dtype, kinds)
    return found
