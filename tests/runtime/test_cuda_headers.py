"""The headers of the CUDA library: each compiles alone, and all together, with an example cell."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.derive import derive
from rnnc.codegen.render import render
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import ptx_of

LIBRARY = Path(__file__).parents[2] / "templates/cuda/lib"
HEADERS = sorted(f"lib/{path.relative_to(LIBRARY)}" for path in LIBRARY.rglob("*.cuh"))
EXAMPLE = '#include "lib/cell/example.cuh"\n'


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))


def ptx_with(code: str) -> str:
    """The PTX of a text that may include any header."""
    cell = rnnc.cells.lstm
    plan = plan_for(cell, Shape(1, 64), limits_of("H200"), "alternating")
    source = render(derive(cell), plan.forward)
    return ptx_of(dataclasses.replace(source, code=code), "sm_90a")


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_compiles_alone(header: str) -> None:
    ptx_with(f'{EXAMPLE}#include "{header}"\n')


def test_all_kinds_of_plans_fit_one_translation_unit() -> None:
    ptx = ptx_with((LIBRARY / "index.cu").read_text())
    for kernel in ("block", "cluster", "grid", "alternating_steps"):
        assert f".entry {kernel}(" in ptx


def test_the_index_includes_every_header() -> None:
    seen: set[str] = set()
    wanted = ["index.cu"]
    while wanted:
        text = (LIBRARY / wanted.pop()).read_text()
        found = {line.split('"')[1] for line in text.splitlines() if line.startswith("#include")}
        wanted += [path.removeprefix("lib/") for path in found - seen]
        seen |= found
    # An alternating plan has either fused kernels or those of the matrix library.
    parts = ("call", "forward", "backward")
    assert set(HEADERS) - seen == {f"lib/kernels/alternating/library_{part}.cuh" for part in parts}


def test_a_header_that_does_not_compile_is_found() -> None:
    with pytest.raises(rnnc.CompileError, match="undeclared_thing"):
        ptx_with(f'{EXAMPLE}#include "lib/mma/tf32.cuh"\nint nonsense = undeclared_thing;\n')
