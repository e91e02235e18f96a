"""The example cell of the CUDA library: editors and compilers read headers with it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.source import kernel_source
from rnnc.codegen.cuda.step.plan import backward_plan, forward_plan
from rnnc.codegen.render import Source
from rnnc.codegen.shape import Shape

EXAMPLE = Path(__file__).parents[3] / "templates/cuda/example/lstm.cuh"
HEAD_DIMS = {"block": 64, "cluster": 128, "grid": 256, "alternating": 512}
HEADING = """\
// What the generated sources of one cell, the LSTM, define ahead of the library's headers.
//
// `RNNC_UPDATE_GOLDEN=1 pytest tests/templates/cuda/test_example.py` writes this file. It joins the
// sources of one plan of each kind, without their kernels. Where sources define the same name, the
// first definition is here. Editors (compile_flags.txt) and index.cu include this file before any
// header.
#pragma once
"""

PART = re.compile(r"^namespace (\S+) \{\n(.*?)^\}  // namespace", re.MULTILINE | re.DOTALL)
DEFINITION = re.compile(r"(?:__device__ )?(?:constexpr|using|enum)\b[\w ]*? (\w+)(?: [{=]|\[)")
INCLUDES = '#include "lib/ptx/element.cuh"\n#include "lib/ptx/math.cuh"\n'


def sources() -> Iterator[tuple[Source, Source]]:
    """Of each kind of plan, and of a single step, the sources of both directions."""
    cell, limits = rnnc.cells.lstm, limits_of("H200")
    for kind, head_dim in HEAD_DIMS.items():
        yield cell.cuda(heads=1, head_dim=head_dim, variant=kind).units
    asked = cell, Shape(1, 512, batch=128), 512, limits, False
    yield tuple(kernel_source(cell, plan(*asked)) for plan in (forward_plan, backward_plan))


def example() -> str:
    """The definitions of all sources; each name once per namespace."""
    parts = [HEADING]
    seen: set[str] = set()
    for units in sources():
        # The backward first: its plan of an alternating kernel has more than one block per cluster.
        for unit in reversed(units):
            for namespace, body in PART.findall(unit.code):
                new = [
                    kept for text in body.split("\n\n") if (kept := not_seen(text, namespace, seen))
                ]
                if new:
                    code = "\n\n".join(new)
                    parts.append(
                        f"namespace {namespace} {{\n\n{code}\n\n}}  // namespace {namespace}\n"
                    )
                if len(parts) == 2:
                    parts.append(INCLUDES)
    return "\n".join(parts)


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


def test_the_example_is_what_the_renderer_writes() -> None:
    text = example()
    if os.environ.get("RNNC_UPDATE_GOLDEN"):
        EXAMPLE.write_text(text)
    assert text == EXAMPLE.read_text()
