"""Names of cells in generated code: none is a macro, a keyword or a global of the compilers."""

from __future__ import annotations

import re
import subprocess
import tempfile
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc import Cell, Constant, Gate, Input, Param, State
from rnnc.cellspec.expression.node import symbol
from rnnc.cellspec.functions import TABLE
from rnnc.cellspec.names import check_name
from rnnc.codegen.cuda.step.plan import StepPlan
from rnnc.codegen.derive import derive, derived
from rnnc.codegen.emit import spelled
from rnnc.codegen.program import targets_of
from rnnc.codegen.render import Source, render
from rnnc.codegen.shape import DIRECTIONS
from rnnc.runtime.cpu.compiler import find_compiler
from rnnc.runtime.cuda.nvrtc import compile_cuda

STANDARDS = ["-std=c++17", "-std=gnu++20"]
# Keywords, globals, macros of CUDA and of our own headers, and names in generated code.
OTHERS = """double new this int operator xor std main linux unix i386 errno stdin threadIdx warpSize
half CUDART_VERSION RNNC_INLINE RNNC_MEMBER RNNC_CONSTEXPR RNNC_UNWEIGHTED real power gates states
params gate state param next saved before after keep width dim Cell kGates a_ lambda_""".split()


def written(source, folder):
    for name, text in (("source.cpp", source.code), *source.headers):
        path = Path(folder) / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")


@cache
def macros(flag):
    """What a compiler defines in a source with all its headers."""
    with tempfile.TemporaryDirectory() as folder:
        written(rnnc.cells.lstm.cpp(), folder)
        command = [*find_compiler(), flag, "-fopenmp", "-dM", "-E", "source.cpp"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [re.split(r"[ (]", line)[1] for line in done.stdout.splitlines()]


def short_names():
    """All names that stay as they are, but temporaries."""
    functions = ("", *(f"{name}_" for name, row in TABLE.items() if not row.free_name))
    letters = "abcdefghijklmnopqrstuvwxyz"
    parts = product(("", "d_"), functions, letters, ("", "_next"), ("", "_sum"))
    return ["".join(each) for each in parts]


def is_free(name):
    try:
        check_name(name, "gate")
    except rnnc.CellError:
        return False
    return True


def test_a_name_stays_or_ends_with_an_underscore():
    short = short_names()
    assert all(spelled(name) == name for name in (*short, "t0", "t17"))
    for name in (
        "I",
        "or",
        "d_fileno",
        "h_addr",
        "alpha",
        "RAND_MAX",
        "a_",
        "tt0",
        "t",
        "x_next_y",
    ):
        assert spelled(name) == (name if name in short else f"{name}_")
    # So two names have two spellings: none that stays ends with an underscore.
    assert not any(name.endswith("_") for name in short)


FREE = [name for name, row in TABLE.items() if row.free_name]
# No program calls `with_gradient`: its value is that of its first argument.
CALLED = [name for name in FREE if name != "with_gradient"]


def cell_that_calls(names):
    """A cell whose values have these names, and that calls every function with a free name."""
    gate, state, other, given, constant, *params = names
    one = symbol(gate) * symbol(constant) + symbol(given)
    two = rnnc.tanh.of(symbol(state) + symbol(other)) + 1.25
    value = one
    for place, name in enumerate(params):
        value = value + symbol(name) * (one if place % 2 else two)
    for name in CALLED:
        more = {"lerp": (two, 0.25), "pow": (two,), "atan2": (two,), "fmod": (two,)}
        own = rnnc.tanh.of(symbol(params[0]) * one) + 1.5
        value = value + 0.01 * TABLE[name].of(own, *more.get(name, (1.25,) * (name == "remainder")))
    return Cell(
        name="calls",
        gates=(Gate(name=gate),),
        states=(State(name=state), State(name=other)),
        inputs=(Input(name=given),),
        params=tuple(Param(name=name, init=0.5) for name in params),
        constants=(Constant(name=constant, value=0.25),),
        updates=(
            rnnc.tanh.of(value),
            rnnc.floor.of(symbol(gate)) + 0.5 * rnnc.round.of(symbol(state)),
        ),
    )


def test_the_first_functions_alone_take_their_names():
    """Cells have the names of later functions, so the list of those that are refused is closed."""
    refused = {name for name in TABLE if not is_free(name)}
    assert len(refused) == 26
    assert refused == {*TABLE} - {*FREE}
    assert all(map(is_free, ("mean", "sum", "norm", *FREE)))


def test_values_may_have_the_names_of_functions_that_the_cell_calls():
    plain = [f"name{number:02}" for number in range(len(FREE))]
    for shift in (0, 13):
        # Sorted, since the order of names is the order of sums.
        chosen = sorted(FREE)[shift:] + sorted(FREE)[:shift]
        order = [sorted(chosen).index(name) for name in chosen]
        wanted = results(cell_that_calls([plain[i] for i in order]))
        found = results(cell_that_calls(chosen))
        assert len(found) == len(wanted) > 5
        assert all(map(torch.equal, found, wanted))


def test_a_new_state_and_a_function_of_a_gate_have_two_names():
    """The state's new value is `tan_next`, and so would be the value of tan(next)."""

    def cell(state, gate):
        tangent, h = rnnc.tan.of(symbol(gate)), symbol(state)
        whole = rnnc.floor.of(tangent)
        return Cell(
            name="next",
            gates=(Gate(name=gate),),
            states=(State(name=state), State(name="c")),
            inputs=(Input(name="x"),),
            updates=(rnnc.tanh.of(tangent * h + symbol("x")), symbol("c") * 0.5 + whole * whole),
        )

    assert "tan_n" in derive(cell("a", "n")).saved
    assert all(map(torch.equal, results(cell("tan", "next")), results(cell("a", "n"))))


@pytest.mark.parametrize("flag", STANDARDS)
def test_no_macro_of_the_cpp_compiler_is_a_spelling(flag):
    found = macros(flag)
    assert {"RAND_MAX", "INT64_MAX", "RNNC_INLINE"} <= set(found)
    assert not [name for name in found if name.endswith("_") and name[0] != "_"]
    assert not set(found) & set(short_names())
    assert not [name for name in found if re.fullmatch(r"t\d+", name)]


def cell_with(names):
    """A cell whose gate, state, input, constant and params have these names, in this order."""
    gate, state, given, constant, *params = names
    value = rnnc.tanh.of(symbol(gate) * symbol(constant) + symbol(given) * symbol(state))
    for name in params:
        value = value + symbol(name) * symbol(state)
    return Cell(
        name="named",
        gates=(Gate(name=gate),),
        states=(State(name=state),),
        inputs=(Input(name=given),),
        params=tuple(Param(name=name, init=0.5) for name in params),
        constants=(Constant(name=constant, value=0.25),),
        updates=(value,),
    )


def hostile_names():
    found = [n for n in macros(STANDARDS[0]) if is_free(n)]
    assert len(found) > 100
    return sorted({*found, *OTHERS})


def test_the_cpp_compiler_takes_every_macro_as_a_name():
    source = cell_with(hostile_names()).cpp()
    command = [*find_compiler(), STANDARDS[0], "-fopenmp", "-fsyntax-only", "source.cpp"]
    with tempfile.TemporaryDirectory() as folder:
        written(source, folder)
        subprocess.run(command, cwd=folder, check=True)


def groups():
    """Names and plain ones in the same order, in which generated code has them."""
    names = sorted([*OTHERS, "RAND_MAX", "INT64_MAX", "BYTE_ORDER", "NAN", "I", "d", "n", "x"])
    for first in range(0, len(names), 12):
        chosen = names[first : first + 12]
        yield chosen, [f"name{number:02}" for number in range(len(chosen))]


def results(cell):
    torch.manual_seed(0)
    rnn = rnnc.RNN(cell, 3, 4, backend="cpu")
    x, given = torch.randn(5, 2, 3, requires_grad=True), torch.rand(5, 2, requires_grad=True)
    y, _ = rnn(x, inputs={cell.inputs[0].name: given})
    wanted = (x, given, *rnn.parameters())
    return [y.detach(), *torch.autograd.grad(y.sum(), wanted)]


def test_results_keep_their_bits():
    for names, plain in groups():
        found, wanted = results(cell_with(names)), results(cell_with(plain))
        assert len(found) > 5
        assert all(map(torch.equal, found, wanted))


def test_names_change_no_byte_of_a_cuda_kernel():
    for pair in groups():
        chosen, plain = (cell_with(names).cuda(head_dim=16, gpu="A100").units for names in pair)
        for one, other in zip(chosen, plain, strict=True):
            assert compile_cuda(one, "sm_80").cubin == compile_cuda(other, "sm_80").cubin


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_nvrtc_takes_all_functions_and_their_names(dtype):
    variant = "alternating" if dtype == "float64" else "auto"
    source = cell_that_calls(sorted(FREE)).cuda(
        head_dim=16, gpu="A100", dtype=dtype, variant=variant
    )
    for unit in source.units:
        assert compile_cuda(unit, "sm_80").cubin
    assert all(f"fn::{name}(" in source.forward_unit.code for name in CALLED)


def test_no_macro_of_nvrtc_is_a_spelling():
    source = rnnc.cells.lstm.cuda(head_dim=16, gpu="A100").forward_unit
    spellings = [*short_names(), *(f"t{n}" for n in range(100)), *map(spelled, hostile_names())]
    asked = "\n".join(f"#ifdef {name}\n#error {name}\n#endif" for name in spellings)
    before, mark, after = source.code.partition("RNNC_INLINE")
    code = f"{before}{asked}\n{mark}{after}"
    assert compile_cuda(Source(source.name, code, source.headers, source.plan), "sm_80")
    # Of other headers than ours there are none.
    texts = [source.code, *(text for _, text in source.headers)]
    assert not any("#include <" in text for text in texts)
    assert not [m for text in texts for m in re.findall(r"#define (\w*[^_\W]_)\b", text)]


@pytest.mark.parametrize("variant", ["cpu", "step", "block", "cluster", "grid", "alternating"])
def test_templates_spell_every_name(variant):
    cell = cell_with([f"Name{letter}" for letter in "ABCDEFG"])
    if variant == "cpu":
        sources = [cell.cpp()]
    elif variant == "step":
        plans = (StepPlan(direction=d, arch="sm_90a", dtype="float32") for d in DIRECTIONS)
        sources = [render(derive(cell), plan) for plan in plans]
    else:
        sources = list(cell.cuda(head_dim=64, variant=variant).units)
    for source in sources:
        code = re.sub(r"//.*", "", source.code)
        found = re.findall(r"\w*Name[A-G]\w*", code)
        assert len(found) > 10
        assert all(name.endswith("_") for name in found), found


def test_a_variable_named_like_a_saved_function_of_a_gate_is_another_value():
    """The backward read `tanh_g` of the forward, and then assigned the variable to it."""

    def cell_of(name: str) -> rnnc.Cell:
        body = f"x = tanh(g) * h; {name} = x * x; y = {name} * {name} * h; return y + {name}"
        scope: dict = {"tanh": rnnc.tanh}
        exec(f"def own(g, h):\n    {body}", scope)
        scope["own"].__annotations__ = {"g": rnnc.Gate, "h": rnnc.State}
        return rnnc.cell(scope["own"])

    derived.cache_clear()  # it finds equal cells, whatever their variables are called
    found = derive(cell_of("tanh_g"))
    assert found.saved == ("tanh_g",)
    assert "tanh_g" in {value.name for value in found.backward.inputs}
    targets = [target.name for target in targets_of(found.backward.statements)]
    assert "tanh_g" not in targets
    assert len(targets) == len({*targets})
