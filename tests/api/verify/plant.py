"""Faults for the text of kernels; the fuzzer must find each of them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from rnnc.cellspec.functions import TABLE
from rnnc.codegen import adjoint_loops
from rnnc.codegen.derive import derived
from rnnc.runtime.store import compiled
from rnnc.verify.draw.tree import Case, CellDraw
from rnnc.verify.draw.write_cell import functions_used

Edit = Callable[[str], str]


def swap(old: str, new: str) -> Edit:
    """Replaces a text wherever it stands."""
    return lambda text: text.replace(old, new)


def matching(pattern: str, new: str) -> Edit:
    """Replaces what a pattern matches."""
    return lambda text: re.sub(pattern, new, text)


# A fault is an edit of a header, by its name, or of the generated text (""); a row of the table of
# functions with another pullback; or another function in its place.
CPU: dict[str, tuple[str, Edit]] = {
    "an index of another space": (
        "backward.h",
        swap("multiply(d_gates + kDenseGate[p] * dim", "multiply(d_gates + p * dim"),
    ),
    "R transposed": (
        "backward.h",
        swap(
            "pack_panel(matrix + column, size.dim, 1, size.dim,",
            "pack_panel(matrix + column * size.dim, 1, size.dim, size.dim,",
        ),
    ),
    "states swapped": (
        "",
        matching(
            r"(d_states\[)0( \* state_width \+ d\],\n +d_states\[)1( \* state_width \+ d\],)",
            r"\g<1>1\g<2>0\g<3>",
        ),
    ),
    "a bias missed": ("forward.h", swap("i < kBiasGates && a.b", "i < kBiasGates - 1 && a.b")),
    "a saved value overwritten early": (
        "",
        matching(
            r"(kept\[1 \* dim \+ d\] = .*;\n)", r"\1      kept[0 * dim + d] = kept[1 * dim + d];\n"
        ),
    ),
    "a tail that is not masked": (
        "layout.h",
        swap(
            "for (int64_t d = 0; d < n; ++d) to[d] += a[d] * b[d];",
            "for (int64_t d = 0; d < n / 4 * 4; ++d) to[d] += a[d] * b[d];",
        ),
    ),
    "a gradient across a reset": (
        "masked_backward.h",
        swap("std::memset(d_before, 0, (size_t)task_.units * sizeof(real));", ""),
    ),
    "the reset values of another row": (
        "masks.h",
        swap("row * masks_.reset_rows[state]", "0 * masks_.reset_rows[state]"),
    ),
    "the last state of the padding": (
        "masked_forward.h",
        swap("while (steps > 0 && masks_.at(steps - 1, row) == kHold) --steps;", ""),
    ),
    "a reversed row that begins at the end of the padding": (
        "masks.h",
        swap("states_before(how == kFirst ? 0 : step,", "states_before(step,"),
    ),
    "the input of another step": ("layout.h", swap("time * strides[0]", "0 * strides[0]")),
}
CUDA: dict[str, tuple[str, Edit]] = {
    "an index of another space": (
        "block/items_backward.cuh",
        swap("[kPairGate[kSourceFirstPair[source] + i]]", "[kSourceFirstPair[source] + i]"),
    ),
    "R transposed": (
        "gate_weights.cuh",
        # Right for float32 alone, whose words hold one number.
        swap(
            "load_weight_vector<head_dim>(words, from, first + k_tile * kKTile, exists, rounding);",
            "for (int i = 0; i < 4; ++i) {"
            " const int k = first + k_tile * kKTile + i;"
            " const Element* at = from + (k - row) * head_dim + row;"
            " if (exists && k < head_dim) words[i] = prepare_weight(ld_global_u32(at), rounding);"
            " }",
        ),
    ),
    "states swapped": (
        "",  # in the call of the generated function
        matching(
            r"(?s)(\bpointwise_backward\([^;]*?)before\[0\]([^;]*?)before\[1\]",
            r"\1before[1]\2before[0]",
        ),
    ),
    "a bias missed": (
        "item_forward.cuh",
        swap("repeat<Cell::kBiasGates>(", "repeat<Cell::kBiasGates - 1>("),
    ),
    "a saved value overwritten early": (
        "",
        matching(r"(\n  saved\[1\] = .*;\n)", r"\1  saved[0] = saved[1];\n"),
    ),
    "a tail that is not masked": (
        "block/items_backward.cuh",
        swap(
            "if (valid[half][j] && masks.runs(j)) add_to_sums(",
            "if (masks.runs(j)) add_to_sums(",
        ),
    ),
    "a gradient across a reset": (
        "mask_backward.cuh",
        swap("return kMasked && cut[j] ? real(0) : part;", "return part;"),
    ),
    "the reset values of another row": (
        "mask.cuh",
        swap("row * a.masks.reset_row[state]", "0 * a.masks.reset_row[state]"),
    ),
    "the last state of the padding": (
        "mask_forward.cuh",
        swap("if (edge[j] > 0) return false;", "if (edge[j] > 0) return true;"),
    ),
    "a reversed row that begins at the end of the padding": (
        "mask_backward.cuh",
        swap("(now & bit[j]) || (reversed && step == edge[j])", "now & bit[j]"),
    ),
    "the input of another step": (
        "unweighted_copy.cuh",
        swap("return l2_steps_ahead(a) > 0 ? forth : -forth;", "return 0;"),
    ),
}
DERIVATIVES = {
    # silu' has a second term: x sigmoid(x) sigmoid(-x).
    "a dropped term of a derivative": ("silu", lambda d, y, x: (d * TABLE["sigmoid"].of(x),)),
    "a clip of the wrong sign": (
        "clip_gradient",
        lambda d, y, x, bound: (TABLE["clip"].of(-d, -bound, bound), None),
    ),
    "a gradient that goes to the value": ("with_gradient", lambda d, y, value, of: (d, None)),
}
FUNCTIONS = {"floor for trunc": swap("fn::trunc(", "fn::floor(")}
# Of loops that run backwards: an edit of the generated text, or another function in the derivation.
LOOPS = {
    "a carry of the wrong pass": matching(r"(= kept_\w+\[)(pass\d+)\]", r"\1\2 > 0 ? \2 - 1 : 0]"),
    "the gradient of an unchanged value counted once": lambda op, total, share: share,
}
FAULTS = sorted([*CPU, *DERIVATIVES, *FUNCTIONS, *LOOPS])


def may_show(fault: str, case: Case) -> bool:
    """Whether a case has what the fault spoils: others need not be compiled to be found right."""
    cell = case.cell
    if not case.batch * case.steps or case.through == "step":
        return False
    return {
        "an index of another space": len(cell.gates) > 1 and bool(cell.pairs(True)),
        "R transposed": case.dtype == "float32" and bool(cell.pairs(True)) and case.dim > 1,
        "states swapped": len(cell.states) > 1,
        "a bias missed": case.bias and bool(cell.bias_gates),
        "a saved value overwritten early": len(cell.gates) > 1,
        "a tail that is not masked": bool(case.dim % 16 or case.batch % 4),
        "a dropped term of a derivative": "silu" in functions_used(cell),
        "a clip of the wrong sign": "clip_gradient" in functions_used(cell),
        "floor for trunc": "trunc" in functions_used(cell),
        "a gradient that goes to the value": "with_gradient" in functions_used(cell),
        "a carry of the wrong pass": _loops_back(cell),
        "the gradient of an unchanged value counted once": _loops_back(cell),
        "a gradient across a reset": bool(case.resets),
        "the reset values of another row": bool(case.resets) and case.reset_to == "rows",
        "the last state of the padding": bool(case.lengths),
        "a reversed row that begins at the end of the padding": bool(case.lengths)
        and (case.reverse or case.both),
        "the input of another step": any(i.form != "units" for i in cell.inputs),
    }[fault]


def _loops_back(cell: CellDraw) -> bool:
    """Whether the cell has a loop of several passes."""
    nodes = (node for _, value in cell.body for node in value.walk())
    return any(node.op == "repeat" and node.value > 1 for node in nodes)


@contextmanager
def planted(fault: str, device: str, cache: str) -> Iterator[None]:
    """Inside, all kernels that are compiled have the fault, and none comes from a cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RNNC_CACHE_DIR", cache)
        _forget()
        if fault in DERIVATIVES:
            row, pullback = DERIVATIVES[fault]
            patch.setitem(TABLE[row].__dict__, "pullback", pullback)
        elif fault in FUNCTIONS or fault == "a carry of the wrong pass":
            edit = (FUNCTIONS | LOOPS)[fault]
            patch.setattr(compiled, "render", _edited(compiled.render, "", edit))
        elif fault in LOOPS:
            patch.setattr(adjoint_loops, "binary", LOOPS[fault])
        else:
            file, edit = (CPU if device == "cpu" else CUDA)[fault]
            patch.setattr(compiled, "render", _edited(compiled.render, file, edit))
        try:
            yield
        finally:
            _forget()


def _edited(render: Callable, file: str, edit: Edit) -> Callable:
    def faulty(*args: object, **options: object):
        source = render(*args, **options)
        if not file:
            return replace(source, code=edit(source.code))
        headers = tuple(
            (name, edit(text) if name.endswith(f"/{file}") else text)
            for name, text in source.headers
        )
        assert headers != source.headers, f"{file} has no place for this fault any more"
        return replace(source, headers=headers)

    return faulty


def _forget() -> None:
    """What earlier calls have left in memory."""
    derived.cache_clear()
    for name in (
        "cpu.compile",
        "cpu.kernels",
        "cuda.nvrtc",
        "cuda.load",
        "cuda.choose",
        "cuda.prepared",
        "cuda.ready",
    ):
        module = importlib.import_module(f"rnnc.runtime.{name}")
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()
