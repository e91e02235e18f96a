"""The kernels of reversed time, compiled: no spills, and registers as planned. No GPU."""

from __future__ import annotations

import pytest
import rnnc
from rnnc.codegen.cuda.source import cuda_source

SIZES = {"block": (12, 64), "cluster": (3, 256), "grid": (1, 768), "alternating": (1, 768)}
QUICK = [
    *(("lstm", kind, "bfloat16", "gates", True) for kind in SIZES),
    *(("lstm", kind, "bfloat16", "gates", "half") for kind in ("block", "grid")),
    ("gru", "block", "float32", "states", True),
    ("slstm", "alternating", "float64", "states", True),
]
SLOW = [
    *(("lstm", kind, "bfloat16", "gates", "half") for kind in ("cluster", "alternating")),
    ("gru", "block", "float32", "states", "half"),
    ("slstm", "alternating", "float64", "states", "half"),
    *(("slstm", "cluster", "float32", "gates", reverse) for reverse in (True, "half")),
    *(("gru", "grid", "float32", "gates", reverse) for reverse in (True, "half")),
]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
pytestmark = pytest.mark.usefixtures("compiler")


def source(name, kind, dtype, save, reverse):
    heads, head_dim = SIZES[kind]
    cell = rnnc.cells.get(name)
    sizes = {"heads": heads, "head_dim": head_dim, "dtype": dtype}
    return cuda_source(cell, cell.cuda(**sizes, variant=kind, save=save).plan.in_time(reverse))


@pytest.mark.parametrize(("name", "kind", "dtype", "save", "reverse"), CASES)
def test_reversed_time_takes_no_more_than_was_planned(
    name, kind, dtype, save, reverse, compiles_as_planned
):
    compiles_as_planned(source(name, kind, dtype, save, reverse), "sm_90a")
