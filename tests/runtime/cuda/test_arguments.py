"""The structs of a launch: Python writes each field where the kernel reads it."""

from __future__ import annotations

import ctypes
import dataclasses

import pytest
import rnnc
from rnnc import Gate, Input, Param, State, tanh
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.derive import derive
from rnnc.codegen.layout import layout_of
from rnnc.codegen.render import render
from rnnc.codegen.shape import DIRECTIONS, Shape
from rnnc.runtime.cuda.alternating.products import step_facts
from rnnc.runtime.cuda.arguments import (
    arguments_of,
    init_args_struct,
    mask_arguments,
    step_args_struct,
    struct_around,
    workspace_struct,
)
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from rnnc.runtime.cuda.nvrtc import ptx_of
from rnnc.runtime.cuda.step.launcher import backward_step_struct, forward_step_struct


def structs_of(cell, masked=False):
    """Each struct in C++ and its mirror."""
    layout = layout_of(cell)
    forward, backward = (arguments_of(cell, each, masked, False) for each in DIRECTIONS)
    work = workspace_struct(cell, len(layout.sources))
    masks = {"MaskArguments": mask_arguments(len(layout.states))} if masked else {}
    return masks | {
        "ForwardArguments": forward,
        "BackwardArguments": backward,
        "alternating::Workspace": work,
        "alternating::InitArgs<ForwardArguments>": init_args_struct(forward, work),
        "alternating::InitArgs<BackwardArguments>": init_args_struct(backward, work),
        "alternating::StepArgs": step_args_struct(work),
    }


def assertions(name, struct):
    yield f'static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "size of {name}");'
    for field, _ in struct._fields_:
        place, size = getattr(struct, field).offset, getattr(struct, field).size
        where = f"{name}::{field}"
        # What `offsetof` means, in the words of NVRTC, which has no header that defines it.
        found = f"__INTADDR__(&((({name}*)0)->{field}))"
        yield f'static_assert({found} == {place}, "place of {where}");'
        yield f'static_assert(sizeof({where}) == {size}, "size of {where}");'


def source_with(cell, lines, dtype="bfloat16", variant="alternating", more="", masked=False):
    plan = plan_for(cell, Shape(1, 8, dtype=dtype), limits_of("A100"), variant)
    source = render(derive(cell), plan.in_time(False, masked).forward)
    declarations = source.code.split('extern "C"')[0] + more
    text = "\n".join(lines)
    return dataclasses.replace(source, code=f"{declarations}\nnamespace rnnc {{\n{text}\n}}\n")


@pytest.fixture(autouse=True)
def compiler():
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))


# One or several states, params or none, diagonal weights, two sources, no recurrent matrix.
@pytest.mark.parametrize(
    "name",
    ["elman", "lstm", "slstm", "unicornn", "fastgrnn", "peephole_lstm", "indrnn", "nas_cell"],
)
def test_mirrors_lie_as_the_compiler_lays_them_out(name):
    cell = rnnc.cells.get(name)
    lines = [line for item in structs_of(cell).items() for line in assertions(*item)]
    assert len(lines) > 60
    ptx_of(source_with(cell, lines), "sm_80")


@rnnc.cell
def with_inputs(g: Gate, a: Input, b: Input, w: Param, h: State):
    return a * tanh(g) + b * w * h


@pytest.mark.parametrize("masked", [False, True])
def test_inputs_that_no_weight_multiplies_lie_there_too(masked):
    struct = structs_of(with_inputs, masked)["ForwardArguments"]
    inner = dict(struct._fields_)["unweighted"]
    lines = [*assertions("ForwardArguments", struct), *assertions("UnweightedArguments", inner)]
    ptx_of(source_with(with_inputs, lines, masked=masked), "sm_80")


@pytest.mark.parametrize("name", ["elman", "slstm", "indrnn"])
def test_masks_lie_there_too(name):
    cell = rnnc.cells.get(name)
    lines = [line for item in structs_of(cell, True).items() for line in assertions(*item)]
    ptx_of(source_with(cell, lines, masked=True), "sm_80")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["gru", "deep"])
def test_what_cells_with_stages_get_lies_there_too(name, masked, staged_cells):
    cell, _ = staged_cells.TWINS[name]
    plan = plan_for(cell, Shape(1, 8), limits_of("A100"), "alternating").in_time(False, masked)
    for direction, word in (("forward", "Forward"), ("backward", "Backward")):
        sources = sum(map(len, step_facts(cell, direction).matrices))
        work = workspace_struct(cell, sources)
        arguments = arguments_of(cell, direction, masked, False)
        structs = {
            f"Staged{word}Arguments": arguments,
            "alternating::StagedWorkspace": work,
            f"alternating::StagedInitArgs<Staged{word}Arguments>": init_args_struct(
                arguments, work
            ),
            "alternating::StagedStepArgs": step_args_struct(work),
        }
        lines = [line for item in structs.items() for line in assertions(*item)]
        source = kernel_source(cell, getattr(plan, direction))
        text = "\n".join(lines)
        code = f"{source.code}\nnamespace rnnc {{\n{text}\n}}\n"
        ptx_of(dataclasses.replace(source, code=code), "sm_80")


@pytest.mark.parametrize("name", ["elman", "lstm", "fastgrnn"])
def test_what_a_grid_gets_beside_lies_there_too(name):
    cell = rnnc.cells.get(name)
    lines = [
        *assertions(
            "GridArguments<ForwardArguments>",
            struct_around("GridArguments", arguments_of(cell, "forward", False, False)),
        ),
        *assertions(
            "GridArguments<BackwardArguments>",
            struct_around("GridArguments", arguments_of(cell, "backward", False, False)),
        ),
    ]
    more = '#include "lib/exchange/ll_exchange.cuh"\n'
    ptx_of(source_with(cell, lines, variant="block", more=more), "sm_80")


@pytest.mark.parametrize("name", ["elman", "lstm", "fastgrnn", "indrnn"])
def test_what_a_single_step_gets_lies_there_too(name):
    cell = rnnc.cells.get(name)
    counts = (len(layout_of(cell).states), len(layout_of(cell).params))
    lines = [
        *assertions("step::ForwardStepArguments", forward_step_struct(*counts)),
        *assertions("step::BackwardStepArguments", backward_step_struct(*counts)),
    ]
    more = '#include "lib/kernels/step/arguments.cuh"\n'
    ptx_of(source_with(cell, lines, variant="block", more=more), "sm_80")


def test_the_assertions_can_fail():
    wrong = type(
        "Wrong", (ctypes.Structure,), {"_fields_": [("step_idx", ctypes.c_int64)]}
    )  # StepArgs without its first field
    with pytest.raises(rnnc.CompileError, match="size of alternating::StepArgs"):
        ptx_of(source_with(rnnc.cells.lstm, assertions("alternating::StepArgs", wrong)), "sm_80")
    with pytest.raises(rnnc.CompileError, match="place of alternating::StepArgs::step_idx"):
        ptx_of(source_with(rnnc.cells.lstm, assertions("alternating::StepArgs", wrong)), "sm_80")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_sizes_do_not_depend_on_the_dtype(dtype):
    lines = [line for item in structs_of(rnnc.cells.gru).items() for line in assertions(*item)]
    ptx_of(source_with(rnnc.cells.gru, lines, dtype), "sm_80")
