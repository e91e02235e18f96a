"""The text of C++ sources: golden files, one scalar type, the same bytes in every process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import jinja2.meta
import pytest
import rnnc
from rnnc.cellspec.expression.graph import everywhere
from rnnc.cellspec.expression.node import binary, compare, number, symbol
from rnnc.cellspec.functions import TABLE
from rnnc.codegen.cpu.plan import CpuPlan
from rnnc.codegen.derive import derive
from rnnc.codegen.emit import cpp
from rnnc.codegen.emit_function import emit_function
from rnnc.codegen.program import Program, Statement, count_operations
from rnnc.codegen.render import _environment, render

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("dtype", ["bfloat16", "double", None])
def test_cpu_kernels_of_other_dtypes_are_refused(dtype):
    with pytest.raises(rnnc.PlanError, match="wanted: one of float32, float64: half precision"):
        rnnc.cells.lstm.cpp(dtype)


@pytest.mark.parametrize("name", ["lstm", "gru", "slstm"])
def test_golden_source(name):
    """Set RNNC_UPDATE_GOLDEN=1 to accept a new text; then read the difference in the commit."""
    code = rnnc.cells.get(name).cpp().code
    file = GOLDEN / f"{name}.cpp"
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        file.write_text(code)
    assert code == file.read_text()


@pytest.mark.parametrize("name", rnnc.cells.names())
def test_every_cell_renders_in_one_scalar_type(name):
    cell = rnnc.cells.get(name)
    single, double = cell.cpp("float32"), cell.cpp("float64")
    assert single.code.replace("using real = float;", "using real = double;") == double.code
    assert single.digest != double.digest
    generated = re.sub(r"//.*", "", single.code)
    assert "pow(" not in generated
    assert "double" not in generated
    for literal in re.findall(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?", generated):
        assert f"real({literal})" in generated or f"real(-{literal})" in generated, literal


@pytest.mark.slow
def test_text_does_not_depend_on_the_process():
    program = (
        "import rnnc, hashlib\n"
        "text = ''.join(rnnc.cells.get(n).cpp().code for n in rnnc.cells.names())\n"
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
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


x, y, z = map(symbol, "xyz")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (x**2, "x*x"),
        (x**3, "x*x*x"),
        (x**4, "power<4>(x)"),
        ((x + y) ** 2, "power<2>(x + y)"),
        (1 - x, "real(1) - x"),
        (x / 2, "x/real(2)"),
        (-x * y, "-x*y"),
        (-(x * y), "-x*y"),
        (x - (y - z), "x - (y - z)"),
        (x + (y + z), "x + (y + z)"),
        (x + y + z, "x + y + z"),
        (x * (y * z), "x*(y*z)"),
        (x * (y / z), "x*(y/z)"),
        (x / y / z, "x/y/z"),
        (x / (y / z), "x/(y/z)"),
        (x - (-y), "x - (-y)"),
        (-(-x), "-(-x)"),  # noqa: B002
        ((-x) ** 2, "power<2>(-x)"),
        (x**2 * y, "x*x*y"),
        (y * x**2, "y*(x*x)"),
        (x**-2, "power<2>(real(1)/x)"),
        (x - y * z, "x - y*z"),
        (0.1 * x, "real(0.1)*x"),
        (number(-3), "real(-3)"),
        (number(10**20), "real(1e+20)"),
        (number(1e300), "rnnc::literal(1e+300)"),
        (number(-0.0), "real(-0.0)"),
        (x / (y + z), "x/(y + z)"),
        (rnnc.where.of(compare(">", x, number(0)), y, 1), "where((x > real(0)), y, real(1))"),
        (
            rnnc.where.of(binary("&", compare(">", x, y), compare("<", y, z)), y, z),
            "where(((x > y) && (y < z)), y, z)",
        ),
        (rnnc.exp.of(-x), "exp(-x)"),
        (rnnc.floor.of(x / y), "fn::floor(x/y)"),
        (rnnc.pow.of(x, 0.3) * x**2, "fn::pow(x, real(0.3))*(x*x)"),
        (symbol("floor") + rnnc.floor.of(symbol("floor")), "floor_ + fn::floor(floor_)"),
    ],
)
def test_printer(value, text):
    printed = cpp(value)
    assert printed == text
    assert ("pow(" in printed) == ("fn::pow" in text)  # a whole exponent is products


def test_operations_are_counted_as_they_are_spelled():
    for value, count in [
        (x, 0),
        (x + y, 1),
        (x - y, 1),
        (-x, 1),
        (x * y * z, 2),
        (x**3, 2),
        (x / y, 1),
        (rnnc.tanh.of(x * y), 2),
        (1 - x**2, 2),
        (rnnc.where.of(compare(">", x, y), y, z), 2),
    ]:
        assert count_operations(value) == count, value


def test_function_text():
    program = Program((x, y), (Statement(symbol("x_next"), x * y),), (symbol("x_next"),))
    assert emit_function("f", program, ["x", "y"], ()) == (
        "RNNC_INLINE void f(real x, real y, real& x_next) {\n  x_next = x*y;\n}"
    )


def test_rows_with_a_free_name_are_in_a_namespace_and_bring_their_header():
    @rnnc.cell
    def cell(g: rnnc.Gate, h: rnnc.State):
        return rnnc.mish(g) + rnnc.floor(h) + rnnc.relu(g)

    source = cell.cpp()
    rows = source.code[source.code.index("RNNC_INLINE real relu") :].splitlines()
    # Only the backward calls where.
    assert [line.partition("(")[0] for line in rows[:5]] == [
        *("RNNC_INLINE real relu", "RNNC_INLINE real where", "namespace fn {"),
        *("RNNC_INLINE real mish", "}  // namespace fn"),
    ]
    for sources, header in (((source,), "lib/functions.h"), (cell.cuda(head_dim=16).units, "")):
        for each in sources:
            name = header or "lib/functions.cuh"
            assert f'#include "{name}"' in each.code
            assert name in dict(each.headers)


def test_a_source_without_such_a_row_has_no_more_headers():
    with_one = []
    for cell in map(rnnc.cells.get, rnnc.cells.names()):
        calls = [node.value for node in everywhere(cell.updates) if node.op == "call"]
        source, new = cell.cpp(), any(TABLE[name].free_name for name in calls)
        assert ("lib/functions.h" in dict(source.headers)) == ("fn::" in source.code) == new
        with_one += [cell.name] * new
    assert "lif" in with_one
    assert "lstm" not in with_one


def test_functions_that_the_caller_passes_hide_those_of_the_header():
    value = rnnc.sigmoid.of(x)
    program = Program((x,), (Statement(symbol("x_next"), value),), (symbol("x_next"),))
    assert emit_function("f", program, ["x"], (), ["sigmoid"]) == (
        "template <typename _sigmoid>\n"
        "RNNC_INLINE void f(real x, real& x_next, _sigmoid& sigmoid) {\n"
        "  x_next = sigmoid(x);\n}"
    )


def test_templates_state_their_contract_and_miss_nothing_in_silence():
    environment = _environment()
    assert environment.undefined is jinja2.StrictUndefined
    of_the_package, *_ = environment.loader.loaders
    templates = [n for n in of_the_package.list_templates() if n.endswith(".jinja")]
    assert templates == [
        "cpu/backward_blocks.jinja",
        "cpu/forward_blocks.jinja",
        "cpu/kernel.cpp.jinja",
        "cpu/stages.jinja",
        "cuda/alternating.cu.jinja",
        "cuda/block.cu.jinja",
        "cuda/cell.cuh.jinja",
        "cuda/cluster.cu.jinja",
        "cuda/gradients.jinja",
        "cuda/grid.cu.jinja",
        "cuda/scan.cu.jinja",
        "cuda/stage_functions.cuh.jinja",
        "cuda/stage_tables.cuh.jinja",
        "cuda/staged/alternating.cu.jinja",
        "cuda/step.cu.jinja",
        "cuda/unit_values.cuh.jinja",
        "cuda/walk.cu.jinja",
        "time.jinja",
    ]
    for name in templates:
        text, _, _ = environment.loader.get_source(environment, name)
        contract = text.split("-#}")[0]
        assert contract.startswith("{#- Contract. Gets: "), name
        assert "Gives: " in contract
        with pytest.raises(jinja2.UndefinedError):
            environment.get_template(name).render()
        # Every name that the template uses is in its contract.
        used = jinja2.meta.find_undeclared_variables(environment.parse(text))
        assert used <= set(re.findall(r"\w+", contract)), name


def test_headers_hold_no_tag_and_travel_with_the_source():
    source = render(derive(rnnc.cells.elman), CpuPlan())
    names = [name for name, _ in source.headers]
    assert set(re.findall(r'#include "([^"]+)"', source.code)) <= set(names)
    for name, text in source.headers:
        assert "{{" not in text.replace("{{}}", ""), name
        assert "{%" not in text, name


def test_plan_and_source_print_what_they_are():
    source = rnnc.cells.elman.cpp()
    assert str(source) == source.code
    assert str(source.plan).startswith("CPU, float32:")
    assert "3 operations" in str(derive(rnnc.cells.elman))
