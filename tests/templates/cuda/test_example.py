"""The examples of the CUDA library: what editors and compilers read headers with."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import rnnc
from rnnc import Gate, Input, State, sigmoid, tanh
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source, kernel_source
from rnnc.codegen.plan import Plan
from rnnc.codegen.render import Source
from rnnc.codegen.shape import Shape

ROOM = Path(__file__).parents[3] / "templates/cuda/example"
HEAD_DIMS = {"block": 64, "cluster": 128, "grid": 256, "alternating": 512}
LIMITS = limits_of("H200")
HEADINGS = {
    "lstm": "the LSTM, in plain plans: no source of them defines a switch",
    "decaying_lstm": "an LSTM with an input that no weight multiplies, with all switches",
}
HEADING = """\
// What the generated sources of one cell define ahead of the library's headers:
// {}.
//
// `RNNC_UPDATE_GOLDEN=1 pytest tests/templates/cuda/test_example.py` writes this file. It joins the
// sources of one plan of each kind, without their kernels. Where sources define the same name, the
// first definition is here. Editors (compile_flags.txt) or an index.cu include this file ahead of
// any header.
#pragma once
"""

PART = re.compile(r"^namespace (\S+) \{\n(.*?)^\}  // namespace", re.MULTILINE | re.DOTALL)
DEFINITION = re.compile(r"(?:__device__ )?(?:constexpr|using|enum)\b[\w ]*? (\w+)(?: [{=]|\[)")
SWITCH = re.compile(r"^#define RNNC_.*\n", re.MULTILINE)
INCLUDES = '#include "lib/ptx/element.cuh"\n#include "lib/ptx/math.cuh"\n'


@rnnc.cell
def decaying_lstm(i: Gate, f: Gate, z: Gate, o: Gate, decay: Input, h: State, c: State):
    c = sigmoid(f) * c * decay + sigmoid(i) * tanh(z)
    return sigmoid(o) * tanh(c), c


CELLS = {"lstm": rnnc.cells.lstm, "decaying_lstm": decaying_lstm}


def sources(name: str) -> Iterator[tuple[Source, Source]]:
    """Of each kind of plan, and of a single step, the sources of both directions."""
    cell = CELLS[name]
    for kind, head_dim in HEAD_DIMS.items():
        plan = cell.cuda(heads=1, head_dim=head_dim, variant=kind).plan
        yield from (cuda_source(cell, each).units for each in forms(name, plan))
    step = plan_for(cell, Shape(1, 512, batch=128), LIMITS, "step", features=512)
    yield tuple(kernel_source(cell, plan) for plan in (step.forward, step.backward))


def forms(name: str, plan: Plan) -> Iterator[Plan]:
    """The plan, or those that define all switches together."""
    if name == "lstm":
        yield plan
        return
    masked = plan.in_time("half", masked=True)
    yield masked.with_stored_resets(CELLS[name], LIMITS.shared_per_block)
    if plan.variant == "block":
        yield plan.in_time(True)
        yield Plan(replace(plan.forward, wavefront=True), replace(plan.backward, wavefront=True))


def example(name: str) -> str:
    """The definitions of all sources; each name once per namespace."""
    parts: list[str] = []
    switches: dict[str, None] = {}
    seen: set[str] = set()
    for units in sources(name):
        # The backward first: its plan of an alternating kernel has more than one block per cluster.
        for unit in reversed(units):
            switches |= dict.fromkeys(SWITCH.findall(unit.code))
            for namespace, body in PART.findall(unit.code):
                new = [
                    kept for text in body.split("\n\n") if (kept := not_seen(text, namespace, seen))
                ]
                if new:
                    code = "\n\n".join(new)
                    parts.append(
                        f"namespace {namespace} {{\n\n{code}\n\n}}  // namespace {namespace}\n"
                    )
                if len(parts) == 1:
                    parts.append(INCLUDES)
    ahead = ["".join(switches)] if switches else []
    return "\n".join([HEADING.format(HEADINGS[name]), *ahead, *parts])


def not_seen(paragraph: str, namespace: str, seen: set[str]) -> str:
    """A paragraph of a namespace without what is seen; empty if only comments would remain."""
    struct = re.search(r"^struct (\w+) \{", paragraph, re.MULTILINE)
    if struct:
        key = f"{namespace}::{struct[1]}"
        text = "" if key in seen else paragraph.strip("\n")
        seen.add(key)
        return text
    lines = []
    for line in paragraph.strip("\n").splitlines():
        found = DEFINITION.match(line)
        key = f"{namespace}::{found[1]}" if found else ""
        if key not in seen:
            lines.append(line)
        if key:
            seen.add(key)
    text = "\n".join(lines)
    if text in seen or all(line.startswith("//") for line in lines):
        return ""
    seen.add(text)
    return text


@pytest.mark.parametrize("name", CELLS)
def test_the_example_is_what_the_renderer_writes(name: str) -> None:
    text, file = example(name), ROOM / f"{name}.cuh"
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def test_an_example_has_every_switch_that_a_template_defines() -> None:
    templates = "".join(path.read_text() for path in ROOM.parents[1].rglob("*.jinja"))
    wanted = set(re.findall(r"#define (RNNC_\w+)", templates))
    assert wanted
    assert wanted == set(re.findall(r"#define (RNNC_\w+)", example("decaying_lstm")))
    assert "#define" not in example("lstm")
