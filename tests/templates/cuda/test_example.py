"""The example of the CUDA library: what editors and compilers read headers with."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import pytest
import rnnc
from rnnc import Gate, Input, State, sigmoid, tanh, uniform
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.derive import derive
from rnnc.codegen.plan import Plan
from rnnc.codegen.render import Source, render
from rnnc.codegen.shape import SAVES, Shape

FILE = Path(__file__).parents[3] / "templates/cuda/example/lstm.cuh"
HEAD_DIMS = {"block": 64, "cluster": 128, "grid": 256, "alternating": 512}
LIMITS = limits_of("H200")
HEADING = """\
// What the generated sources of an LSTM define ahead of the library's headers: with RNNC_PLAIN
// those of plain plans, which define no switch; without it those of an LSTM with an input that no
// weight multiplies and a call draws, with all switches.
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
def decaying_lstm(
    i: Gate, f: Gate, z: Gate, o: Gate, h: State, c: State, *, decay: Input = uniform()
):
    c = sigmoid(f) * c * decay + sigmoid(i) * tanh(z)
    return sigmoid(o) * tanh(c), c


CELLS = {"lstm": rnnc.cells.lstm, "decaying_lstm": decaying_lstm}


def sources(name: str) -> Iterator[tuple[Source, Source]]:
    """Of each kind of plan, and of a single step, the sources of both directions."""
    cell, save = CELLS[name], SAVES[name != "lstm"]
    for kind, head_dim in HEAD_DIMS.items():
        plan = cell.cuda(heads=1, head_dim=head_dim, variant=kind, save=save).plan
        yield from (cuda_source(cell, each).units for each in forms(name, plan))
    # The same equations and sizes, but for the matrices: walk and scan plans have none.
    gates = tuple(gate.model_copy(update={"recurrent": False}) for gate in cell.gates)
    walking = cell.model_copy(update={"gates": gates})
    for kind in ("walk", "scan"):
        plan = walking.cuda(heads=1, head_dim=64, variant=kind, save=save).plan
        # A forward that saves nothing would define the functions of other kinds otherwise.
        derived = derive(walking, activations=save == "gates")
        if kind == "scan":  # both directions have one struct of sizes
            names = ("warps", "chunk", "sequential", "parts")
            sizes = {each: getattr(plan.backward, each) for each in names}
            plan = Plan(replace(plan.forward, **sizes), plan.backward)
        for each in forms(name, plan):
            yield tuple(render(derived, kernel) for kernel in (each.forward, each.backward))
    derived = derive(cell, activations=save == "gates")
    step = plan_for(cell, Shape(1, 512, batch=128), LIMITS, "step", features=512)
    yield tuple(render(derived, kernel) for kernel in (step.forward, step.backward))


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


@cache
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
    return "\n".join([*ahead, *parts])


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


def merged(plain: str, switched: str) -> str:
    """A text that the preprocessor makes one of two of: the first where RNNC_PLAIN is defined."""
    ours, theirs = plain.splitlines(keepends=True), switched.splitlines(keepends=True)
    parts = []
    for tag, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        one, other = "".join(ours[a:b]), "".join(theirs[c:d])
        if tag == "equal":
            parts.append(one)
        elif one:
            parts.append(f"#ifdef RNNC_PLAIN\n{one}{'#else' if other else '#endif'}\n")
            parts.append(f"{other}#endif\n" if other else "")
        else:
            parts.append(f"#ifndef RNNC_PLAIN\n{other}#endif\n")
    return "".join(parts)


def preprocessed(text: str, plain: bool) -> str:
    """One of the two texts that `merged` has joined."""
    kept, lines = [True], []
    for line in text.splitlines(keepends=True):
        if line.startswith(("#ifdef RNNC_PLAIN", "#ifndef RNNC_PLAIN")):
            kept.append(line.startswith("#ifdef") == plain)
        elif line == "#else\n":
            kept[-1] = not kept[-1]
        elif line == "#endif\n":
            kept.pop()
        elif kept[-1]:
            lines.append(line)
    return "".join(lines)


def test_the_example_is_what_the_renderer_writes() -> None:
    text = f"{HEADING}\n{merged(example('lstm'), example('decaying_lstm'))}"
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        FILE.write_text(text)
    assert text == FILE.read_text()


@pytest.mark.parametrize(("plain", "name"), [(True, "lstm"), (False, "decaying_lstm")])
def test_the_preprocessor_makes_both_examples_of_one_file(plain: bool, name: str) -> None:
    assert preprocessed(FILE.read_text(), plain) == f"{HEADING}\n{example(name)}"


def test_an_example_has_every_switch_that_a_template_defines() -> None:
    files = [path for path in FILE.parents[2].rglob("*.jinja") if path.parent.name != "cpu"]
    templates = "".join(path.read_text() for path in files)
    # Cells with stages have headers of their own, which no example includes.
    wanted = set(re.findall(r"#define (RNNC_\w+)", templates)) - {"RNNC_STAGES"}
    assert wanted
    assert wanted == set(re.findall(r"#define (RNNC_\w+)", example("decaying_lstm")))
    assert "#define" not in example("lstm")
