"""The headers of the CUDA library, as editors open them: each compiles alone, all compile together.

An editor has two configurations, by the compile_flags.txt of a folder: all switches on the newest
architecture, and none on an old one. Every line of a header belongs to one of them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import rnnc
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import compile_flags

TEMPLATES = Path(__file__).parents[3] / "templates/cuda"
FILES = {str(path.relative_to(TEMPLATES)): path.read_text() for path in TEMPLATES.rglob("*.cu*")}
HEADERS = sorted(name for name in FILES if name.startswith("lib/") and name.endswith(".cuh"))
FLAGS = (TEMPLATES / "compile_flags.txt").read_text().split()
EXAMPLE = f'#include "{FLAGS[-1]}"\n'
PLAIN = f"#define RNNC_PLAIN\n{EXAMPLE}"
INDEX = {"lib/index.cu": TEMPLATES, "plain/index.cu": TEMPLATES / "plain"}
BRANCH = re.compile(r"^#(if|ifdef|ifndef|elif|else)\b.*$", re.MULTILINE)


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))


def arch_of(index: str) -> str:
    """The architecture that an editor takes for an index."""
    flags = (INDEX[index] / "compile_flags.txt").read_text()
    (found,) = re.findall(r"^-D__CUDA_ARCH__=(\d+)0$", flags, re.MULTILINE)
    return f"compute_{found}"


def log_of(code: str, arch: str, files: dict[str, str]) -> tuple[bool, str]:
    """Whether the front end of NVRTC accepts a text that may include any file, and what it says.

    It stops ahead of code generation, which takes ten times as long; other tests compile kernels.
    """
    nvrtc = cupy_nvrtc()
    names, texts = zip(*((n.encode(), text.encode()) for n, text in files.items()), strict=True)
    program = nvrtc.createProgram(code, "test.cu", texts, names)
    accepted = True
    try:
        flags = compile_flags("bfloat16", arch)
        nvrtc.compileProgram(program, (*flags, "--fdevice-syntax-only"))
    except nvrtc.NVRTCError:
        accepted = False
    log = str(nvrtc.getProgramLog(program))
    nvrtc.destroyProgram(program)
    return accepted, log


def errors_of(code: str, arch: str = "compute_90a") -> str:
    """What the front end refuses; empty if nothing."""
    accepted, log = log_of(code, arch, FILES)
    return "" if accepted else log


@pytest.mark.parametrize("header", [*HEADERS, "functions/functions.cuh"])
def test_a_header_compiles_alone(header: str) -> None:
    assert not errors_of(f'{EXAMPLE}#include "{header}"\n', arch_of("lib/index.cu"))


@pytest.mark.parametrize("index", INDEX)
def test_all_kinds_of_plans_fit_one_translation_unit(index: str) -> None:
    kernels = ("block", "cluster", "grid", "alternating_steps", "walk", "scanned", "single_step")
    for kernel in kernels:
        assert f'extern "C" __global__ void {kernel}(' in FILES["lib/index.cu"]
    for arch in {arch_of(index), "compute_90a"}:
        assert not errors_of(FILES[index], arch)


def test_an_index_includes_every_header() -> None:
    seen: set[str] = set()
    wanted = ["lib/index.cu"]
    while wanted:
        text = FILES[wanted.pop()]
        found = {line.split('"')[1] for line in text.splitlines() if line.startswith("#include")}
        wanted += found - seen
        seen |= found
    assert set(HEADERS) <= seen
    assert all('"lib/index.cu"' in FILES[index] for index in INDEX if index != "lib/index.cu")


@cache
def branches() -> tuple[dict[str, str], tuple[str, ...]]:
    """All files with a warning where a branch of the preprocessor begins, and the warnings."""
    places: list[str] = []

    def marked(name: str, text: str) -> str:
        def mark(found: re.Match[str]) -> str:
            line = text.count("\n", 0, found.start()) + 1
            places.append(f"branch {name} {line}")
            return f"{found[0]}\n#warning {places[-1]}"

        return BRANCH.sub(mark, text)

    files = {name: marked(name, text) if name in HEADERS else text for name, text in FILES.items()}
    return files, tuple(places)


def compiled_branches(index: str) -> set[str]:
    """The branches that the compiler reads in an index."""
    files, _ = branches()
    accepted, log = log_of(FILES[index], arch_of(index), files)
    assert accepted, log
    return set(re.findall(r"branch \S+ \d+", log))


def test_an_index_compiles_every_branch_of_every_header() -> None:
    _, places = branches()
    plain, switched = compiled_branches("plain/index.cu"), compiled_branches("lib/index.cu")
    assert len(places) > 30
    assert plain | switched == set(places)
    # No branch is there for both: neither index alone would show everything.
    assert plain - switched
    assert switched - plain


def test_a_branch_without_an_index_is_found() -> None:
    files, _ = branches()
    line = FILES["lib/cell/switches.cuh"].splitlines().index("#ifdef RNNC_MASKED") + 1
    place = f"branch lib/cell/switches.cuh {line}"
    assert f"#warning {place}\n" in files["lib/cell/switches.cuh"]
    assert place in compiled_branches("lib/index.cu") - compiled_branches("plain/index.cu")


@pytest.mark.parametrize("example", [EXAMPLE, PLAIN])
def test_a_header_that_does_not_compile_is_found(example: str) -> None:
    wrong = f'{example}#include "lib/mma/tf32.cuh"\nint nonsense = undeclared_thing;\n'
    assert "undeclared_thing" in errors_of(wrong)


def test_an_error_that_only_an_instance_of_a_template_has_is_found() -> None:
    index = FILES["lib/index.cu"]
    wrong = index.replace("grid_forward::run(forward)", "grid_forward::run(backward)")
    assert "GridArguments" in errors_of(wrong)
    late = 'template <int n> RNNC_INLINE void late() { static_assert(n > 1, "too late"); }\n'
    kernel = 'extern "C" __global__ void kernel() { late<1>(); }\n'
    assert "too late" in errors_of(EXAMPLE + late + kernel)
