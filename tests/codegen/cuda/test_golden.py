"""The text of CUDA sources: golden files, and the same bytes in every process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import rnnc
from rnnc.codegen.shape import DIRECTIONS, SAVES

from ...one_stage import ONE_STAGE

GOLDEN = Path(__file__).parents[2] / "golden"
KINDS = ("block", "cluster", "grid", "alternating")


def source(name, variant="block", dtype="bfloat16", save="gates", head_dim=64):
    cell = rnnc.cells.get(name)
    return cell.cuda(heads=12, head_dim=head_dim, dtype=dtype, variant=variant, save=save)


def same_as_golden(file, code):
    """Set RNNC_UPDATE_GOLDEN=1 to accept a new text; then read the difference in the commit."""
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        file.write_text(code)
    assert code == file.read_text()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("name", "kind"),
    [*(("lstm", kind) for kind in KINDS), ("slstm", "block"), ("hgrn", "walk"), ("hgrn", "scan")],
)
def test_golden_source(name, kind, direction):
    code = getattr(source(name, kind), direction)
    same_as_golden(GOLDEN / f"{name}.{kind}.{direction}.cu", code)


@pytest.mark.parametrize("name", ONE_STAGE)
def test_every_cell_renders_for_every_plan(name):
    for variant in KINDS:
        if variant == "grid" and not rnnc.cells.get(name).dense_pairs:
            continue
        for unit in source(name, variant, head_dim=32).units:
            generated = re.sub(r"//.*", "", unit.code)
            assert "pow(" not in generated
            assert "double" not in generated
            included = set(re.findall(r'#include "([^"]+)"', unit.code))
            assert included <= {header for header, _ in unit.headers}


def test_the_dtype_is_stated_once():
    """Between dtypes, only the types and what the plan counted with them differ."""
    single, double = (source("gru", "alternating", d).forward for d in ("float32", "float64"))
    changed = single.replace("Element = float;", "Element = double;")
    assert changed.replace("real = float;", "real = double;") == double


def test_what_is_kept_decides_the_backward_s_inputs():
    gates, states = (source("lstm", save=save).backward for save in SAVES)
    assert "// sigmoid_i, sigmoid_f, tanh_z, sigmoid_o\n" in gates
    assert "// i, f, z, o\n" in states


def test_text_does_not_depend_on_the_process():
    program = (
        "import hashlib, rnnc\n"
        "text = ''\n"
        "for name in ('lstm', 'slstm', 'unicornn', 'fastgrnn', 'indrnn'):\n"
        "    text += rnnc.cells.get(name).cuda(heads=3, head_dim=40, variant='block').code\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
