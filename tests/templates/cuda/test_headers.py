"""The headers of the CUDA library: each compiles alone, and all compile together."""

from __future__ import annotations

from pathlib import Path

import pytest
import rnnc
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import compile_flags

TEMPLATES = Path(__file__).parents[3] / "templates/cuda"
FILES = {str(path.relative_to(TEMPLATES)): path.read_text() for path in TEMPLATES.rglob("*.cu*")}
HEADERS = sorted(name for name in FILES if name.startswith("lib/") and name.endswith(".cuh"))
EXAMPLE = '#include "example/lstm.cuh"\n'


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))


def errors_of(code: str) -> str:
    """What the front end of NVRTC refuses in a text that may include any header; empty if nothing.

    It stops ahead of code generation, which takes ten times as long; other tests compile kernels.
    """
    nvrtc = cupy_nvrtc()
    names, texts = zip(*((n.encode(), text.encode()) for n, text in FILES.items()), strict=True)
    program = nvrtc.createProgram(code, "test.cu", texts, names)
    try:
        flags = compile_flags("bfloat16", "compute_90a")
        nvrtc.compileProgram(program, (*flags, "--fdevice-syntax-only"))
    except nvrtc.NVRTCError:
        return str(nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)
    return ""


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_compiles_alone(header: str) -> None:
    assert not errors_of(f'{EXAMPLE}#include "{header}"\n')


def test_all_kinds_of_plans_fit_one_translation_unit() -> None:
    index = FILES["lib/index.cu"]
    for kernel in ("block", "cluster", "grid", "alternating_steps"):
        assert f'extern "C" __global__ void {kernel}(' in index
    assert not errors_of(index)


def test_the_index_includes_every_header() -> None:
    seen: set[str] = set()
    wanted = ["lib/index.cu"]
    while wanted:
        text = FILES[wanted.pop()]
        found = {line.split('"')[1] for line in text.splitlines() if line.startswith("#include")}
        wanted += found - seen
        seen |= found
    # An alternating plan has either fused kernels or those of the matrix library.
    parts = ("call", "forward", "backward")
    assert set(HEADERS) - seen == {f"lib/kernels/alternating/library_{part}.cuh" for part in parts}


def test_a_header_that_does_not_compile_is_found() -> None:
    wrong = f'{EXAMPLE}#include "lib/mma/tf32.cuh"\nint nonsense = undeclared_thing;\n'
    assert "undeclared_thing" in errors_of(wrong)


def test_an_error_that_only_an_instance_of_a_template_has_is_found() -> None:
    index = FILES["lib/index.cu"]
    wrong = index.replace("grid_forward::run(forward)", "grid_forward::run(backward)")
    assert "GridArguments" in errors_of(wrong)
    late = 'template <int n> RNNC_INLINE void late() { static_assert(n > 1, "too late"); }\n'
    kernel = 'extern "C" __global__ void kernel() { late<1>(); }\n'
    assert "too late" in errors_of(EXAMPLE + late + kernel)
