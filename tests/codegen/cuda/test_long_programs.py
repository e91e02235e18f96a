"""A long program calls the functions that it uses often, where a short one has copies of them."""

from __future__ import annotations

import re
import resource

import pytest
import rnnc
from rnnc import Gate, State, sin, tanh
from rnnc.cellspec.functions import TABLE
from rnnc.codegen import emit, emit_pieces
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.derive import derive
from rnnc.codegen.shape import Shape
from rnnc.runtime.cuda import nvrtc


def chain(length: int, sines: int = 0, tangents: int = 0) -> rnnc.Cell:
    """A chain of tanh, some sin and some of `rnnc.tan`, which generated code spells fn::tan."""

    @rnnc.cell
    def chain(g: Gate, h: State):
        x = g + h
        for turn in range(length):
            x = sin(x) if turn < sines else rnnc.tan(x) if turn < sines + tangents else tanh(x)
        return x

    return chain


def units_of(cell: rnnc.Cell, dtype: str = "float32"):
    """The units of an alternating plan: the only kind with room for so many values."""
    plan = plan_for(cell, Shape(2, 16, 2, dtype=dtype), limits_of("H200"), "alternating")
    return cuda_source(cell, plan).units


def called(code: str) -> list[str]:
    """The functions that a source calls under the names of inline ones."""
    return re.findall(r"__noinline__ real (\w+)\(", code)


def test_only_what_a_program_uses_very_often_is_called():
    mixed = chain(550, sines=emit.MOST_COPIES_OF_LOOPS, tangents=1 + emit.MOST_COPIES_OF_LOOPS)
    found = {"forward": ["tanh", "tan"], "backward": ["tanh", "sin", "tan"]}  # and copies of cos
    for unit, direction in zip(units_of(mixed), found, strict=True):
        assert called(unit.code) == found[direction]
        inside = unit.code.split("namespace long_program {")[1].split("}  // namespace long_pr")[0]
        assert f"void pointwise_{direction}(" in inside
        assert f"using long_program::pointwise_{direction};" in unit.code


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_functions_of_two_byte_elements_are_short_and_copied(dtype):
    # The backward reads the last value, which is the state.
    for unit in units_of(chain(2 + emit.MOST_COPIES), dtype):
        assert called(unit.code) == ["tanh"] * (dtype in ("float32", "float64"))


def test_functions_of_doubles_are_long_and_called_earlier():
    for length in (emit.MOST_COPIES_OF_DOUBLES, 1 + emit.MOST_COPIES_OF_DOUBLES):
        forward, _ = units_of(chain(length), "float64")
        assert called(forward.code) == ["tanh"] * (length > emit.MOST_COPIES_OF_DOUBLES)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_a_function_with_a_loop_of_its_own_is_called_in_every_dtype(dtype):
    length = 1 + emit.MOST_COPIES_OF_LOOPS
    for unit in units_of(chain(length + 2, sines=length), dtype):
        assert "sin" in called(unit.code)


@pytest.mark.usefixtures("compiler")
def test_a_chain_of_500_sines_compiles_within_10_s():
    """Copies took NVRTC two minutes."""
    for unit in units_of(chain(500, sines=500), "bfloat16"):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        nvrtc.built(unit, "sm_90a", "bfloat16")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 10


def test_a_program_that_calls_very_often_is_cut_into_pieces():
    few, many = (units_of(chain(n, sines=n))[1].code for n in (200, 500))
    assert "_noinline__ void pointwise_backward_0(real* kept)" not in few
    pieces = re.findall(r"__noinline__ void (pointwise_backward_\d+)\(real\* kept\) \{", many)
    assert len(pieces) > 20
    calls = re.findall(r"^  (pointwise_backward_\d+)\(kept\);", many, re.MULTILINE)
    assert calls == pieces
    longest = max(text.count(" = cos(") + text.count("*cos(") for text in many.split("\n}\n"))
    assert emit_pieces.CALLS / 2 < longest < 2 * emit_pieces.CALLS  # a statement may have several


def test_calls_of_a_single_function_stay_in_one_function():
    for unit in units_of(chain(1 + emit.MOST_CALLS)):
        assert called(unit.code) == ["tanh"]
        assert "kept" not in unit.code


def test_passes_of_a_loop_are_one_use():
    @rnnc.cell
    def repeated(g: Gate, h: State):
        return rnnc.repeat(2 * emit.MOST_COPIES, lambda x: tanh(x + g), h)

    for unit in units_of(repeated):
        assert "long_program" not in unit.code


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_compiler_writes_a_called_function_once(monkeypatch, dtype):
    monkeypatch.setattr(emit, "MOST_COPIES", 60)
    monkeypatch.setattr(emit, "MOST_COPIES_OF_DOUBLES", 60)
    branches = []
    for length in (62, 61):
        ptx = nvrtc.ptx_of(units_of(chain(length), dtype)[1], "sm_90a")
        branches.append(len(re.findall(r"\bbra\b|\bselp\b", ptx)))
    assert branches[1] - branches[0] > 60


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("sines", "dtype"), [(0, "float32"), (0, "float64"), (1500, "float32")])
def test_2000_statements_compile_within_10_s(sines, dtype):
    """A chain of 1,500 sines has so many in its backward, with as many cosines."""
    for unit in units_of(chain(sines or 2000, sines), dtype):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        nvrtc.built(unit, "sm_90a", dtype)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 10


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_2000_statements_of_all_functions_compile_within_10_s(dtype):
    one = [row for row in TABLE.values() if len(row.arguments) == 1 and row.name != "stop_gradient"]
    two = [rnnc.pow, rnnc.atan2, rnnc.remainder, rnnc.fmod, rnnc.maximum]

    @rnnc.cell
    def mixed(g: Gate, h: State):
        x, y = h, g
        for turn in range(490):
            function = [*one, *two][turn % (len(one) + len(two))]
            value = function(0.3 * x + y) if function in one else function(1 + x * x, y)
            x, y = value + 0.5 * x, x
        return x + 0.1 * y

    assert 1900 < len(derive(mixed).backward.statements) < 2000
    for unit in units_of(mixed, dtype):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        nvrtc.built(unit, "sm_90a", dtype)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 10


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_calls_need_no_more_registers_and_spills_than_copies(monkeypatch):
    reports = []
    for most in (emit.MOST_COPIES, 10**6):
        monkeypatch.setattr(emit, "MOST_COPIES", most)
        _, backward = units_of(chain(600))
        reports.append(nvrtc.unpacked(nvrtc.built(backward, "sm_90a", "float32")).reports)
    for name, report in reports[0].items():
        assert report.registers <= reports[1][name].registers
        assert report.spills <= 1.01 * reports[1][name].spills
