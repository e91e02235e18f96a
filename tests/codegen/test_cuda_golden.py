"""The text of CUDA sources: golden files, the same bytes everywhere, one place for the dtype."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.derive import derive
from rnnc.codegen.render import render
from rnnc.codegen.shape import SAVES, Shape

GOLDEN = Path(__file__).parents[1] / "golden"


def source(name, variant="block", dtype="bfloat16", save="gates", head_dim=64):
    cell = rnnc.cells.get(name)
    shape = Shape(heads=12, head_dim=head_dim, dtype=dtype)
    plan = plan_for(cell, shape, limits_of("H200"), variant, save=save)
    return render(derive(cell, save == "gates"), plan)


@pytest.mark.parametrize("name", ["lstm", "slstm"])
def test_golden_source(name):
    """Set RNNC_UPDATE_GOLDEN=1 to accept a new text; then read the difference in the commit."""
    code = source(name).code
    file = GOLDEN / f"{name}.cu"
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        file.write_text(code)
    assert code == file.read_text()


@pytest.mark.parametrize("name", rnnc.cells.names())
def test_every_cell_renders_for_every_plan(name):
    for variant in ("block", "alternating"):
        found = source(name, variant, head_dim=32)
        generated = re.sub(r"//.*", "", found.code)
        assert "pow(" not in generated
        assert "double" not in generated
        included = set(re.findall(r'#include "([^"]+)"', found.code))
        assert included <= {header for header, _ in found.headers}


def test_the_dtype_is_stated_once():
    """Between dtypes, only the types and what the plan counted with them differ."""
    single, double = (source("gru", "alternating", d).code for d in ("float32", "float64"))
    changed = single.replace("Element = float;", "Element = double;")
    assert changed.replace("real = float;", "real = double;") == double


def test_what_is_kept_decides_the_backward_s_inputs():
    gates, states = (source("lstm", save=save).code for save in SAVES)
    assert "// sigmoid_i, sigmoid_f, tanh_z, sigmoid_o\n" in gates
    assert "// i, f, z, o\n" in states


def test_text_does_not_depend_on_the_process():
    program = (
        "import hashlib, rnnc\n"
        "from rnnc.codegen.derive import derive\n"
        "from rnnc.codegen.cuda.limits import limits_of\n"
        "from rnnc.codegen.shape import Shape\n"
        "from rnnc.codegen.cuda.planner import plan_for\n"
        "from rnnc.codegen.render import render\n"
        "text = ''\n"
        "for name in ('lstm', 'slstm', 'unicornn', 'fastgrnn', 'indrnn'):\n"
        "    cell = rnnc.cells.get(name)\n"
        "    plan = plan_for(cell, Shape(heads=3, head_dim=40), limits_of('H200'), 'block')\n"
        "    text += render(derive(cell), plan).code\n"
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
