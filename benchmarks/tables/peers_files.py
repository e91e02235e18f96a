"""The files of peers' times: one run of all, and FlashRNN's earlier runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from figures import source
from rnnc.bench.results import PHASES, median_of

COMMAND = "rnnc bench --peers --device cuda --ahead --limit 220 --json FILE"
Case = dict[str, Any]
Contender = dict[str, Any]
UNITS = 768

# The columns of the tables over one size: a title, and the contender's name and dtype.
COLUMNS = {
    "rnnc": ("rnnc auto", "bfloat16"),
    "rnnc.RNN +": ("rnnc.RNN", "bfloat16"),
    "FlashRNN": ("FlashRNN cuda_fused", "bfloat16"),
    "cuDNN, float16 +": ("nn.LSTM", "float16"),
    "cuDNN, bfloat16 +": ("nn.LSTM", "bfloat16"),
    "SDPA *": ("torch SDPA", "bfloat16"),
    "fla chunk_gla *": ("fla chunk_gla", "bfloat16"),
    "fla chunk_hgrn *": ("fla chunk_hgrn", "bfloat16"),
    "accelerated-scan *": ("accelerated-scan", "bfloat16"),
}


def with_flashrnn(found: dict[str, Any], results: Path) -> dict[str, Any]:
    """The file with FlashRNN's times from earlier runs, where the run has none.

    Its kernels compile half a minute for each size, so they have runs of their own.
    """
    flashrnn, earlier = COLUMNS["FlashRNN"], {}
    for path in sorted(results.glob("cuda-*.json")):
        content = json.loads(path.read_text("utf-8"))
        for row in content["rows"]:
            own, place = contender_of(row, *flashrnn), place_of(row)
            if own and own["forward_backward"]:  # of its release 1.0.8, in one run with rnnc
                medians = [median_of(own, phase) for phase in PHASES[:2]]
                earlier[place] = medians, f"1.0.8: {source(content)[:-1]}"
            elif row["flashrnn"]:  # of 1.0.5, the best kernel of each row
                where = f"`benchmarks/anchors.json`, {content['anchors_measured_on']}"
                told = f"1.0.5: {where}, whose command was not kept"
                earlier.setdefault(place, (row["flashrnn"], told))
    used = []
    for case in found["cases"]:
        place = place_of(case)
        alone = contender_of(case, *flashrnn) is None and contender_of(case, *COLUMNS["rnnc"])
        if place in earlier and alone:
            times, where = earlier[place]
            known = dict(zip(("name", "dtype"), flashrnn, strict=True))
            known |= {"terms": "wx ready", "note": "", "peak_mib": None, "failures": {}}
            known |= dict(zip(PHASES, times, strict=False)) | {"first_call_seconds": None}
            case["contenders"].append(known)
            used.append(where)
    return found | {"flashrnn": list(dict.fromkeys(used))}


def place_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("cell", "heads", "head_dim", "batch", "steps"))


def sizes(case: Case) -> str:
    """The heads and units, the batch and the steps of a case."""
    return f"{case['heads']} x {case['head_dim']}, B {case['batch']}, T {case['steps']}"


def named(case: Case) -> str:
    """The cell and the sizes, and how products of float32 round if there are any."""
    rounding = {"tf32": ", TF32", "ieee": ", exact"}[case["float32"]]
    return f"{case['cell']}, {sizes(case)}{rounding if 'float32' in case['name'] else ''}"


def contender_of(case: Case, name: str, dtype: str) -> Contender | None:
    """One of a case's contenders."""
    own = (c for c in case["contenders"] if (c["name"], c["dtype"]) == (name, dtype))
    return next(own, None)
