"""Shrinks a failing case to the smallest one that still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from ..draw.cell import without_unused
from ..draw.tree import Case, CellDraw, Node, name, number

Drawn = TypeVar("Drawn")

_PLAIN = Case(CellDraw((), (), (), (), (), ()))


def shrink(
    case: Drawn,
    fails: Callable[[Drawn], bool],
    smaller: Callable[[Drawn], Iterator[Drawn]],
    seconds: float = 60,
) -> Drawn:
    """Try smaller cases until none fails.

    Args:
        case: a case that fails.
        fails: tells whether a case fails.
        smaller: gives the cases to try.
        seconds: the time limit, after which the smallest case so far is returned.
    """
    deadline = time.monotonic() + seconds
    found = True
    while found:
        found = False
        for less in smaller(case):
            if time.monotonic() > deadline:
                return case
            if fails(less):
                case, found = less, True
                break
    return case


def smaller_cells(case: Case) -> Iterator[Case]:
    """Yield cases with default options, smaller sizes or a smaller cell.

    Args:
        case: a case that fails.
    """
    yield from _options(case)
    yield from _sizes(case)
    for cell in _cells(case.cell):
        if _is_valid(cell):
            yield replace(case, cell=cell)


def _is_valid(cell: CellDraw) -> bool:
    """Return True if the language accepts a cell: every name is used, and new values differ."""
    used = {n for _, value in cell.body for n in value.names()}
    news = [value for target, value in cell.body if target.startswith("new_")]
    return (
        all(d.name in used for d in cell.declared if d not in cell.states)
        and len(set(news)) == len(news)
        and not any(value.op == "number" for _, value in cell.body)
        and all(g.input or g.recurrent for g in cell.gates)
    )


def _options(case: Case) -> Iterator[Case]:
    for option in (
        "through",
        "reverse",
        "both",
        "views",
        "without",
        "silent",
        "json",
        "save",
        "reset_to",
    ):
        default = getattr(_PLAIN, option)
        if getattr(case, option) != default:
            yield replace(case, **{option: default})
    if case.reset_to == "init":
        if case.lengths:
            yield replace(case, lengths=())
        if case.resets:
            yield replace(case, resets=())
    for option in (
        "threads",
        "bias",
        "states",
        "batch_first",
        "flags",
        "dtype",
        "layers",
        "variant",
    ):
        default = getattr(_PLAIN, option)
        if getattr(case, option) != default:
            yield replace(case, **{option: default})
    if case.dtype in ("bfloat16", "float16"):
        yield replace(case, dtype="float32")
    for option in ("views", "without", "silent"):
        values = getattr(case, option)
        if len(values) > 1:
            for i in range(len(values)):
                yield replace(case, **{option: values[:i] + values[i + 1 :]})


def _sizes(case: Case) -> Iterator[Case]:
    for size in ("batch", "steps", "heads", "dim", "input_size"):
        now = getattr(case, size)
        for less in sorted({1, 2, now // 2, now - 1}):
            if 0 < less < now:
                yield replace(case, **{size: less})


def _cells(cell: CellDraw) -> Iterator[CellDraw]:
    for i in range(len(cell.states)):
        if len(cell.states) > 1:
            yield from _without(cell, "states", i)
    for group in ("gates", "inputs", "params", "constants"):
        for i in range(len(getattr(cell, group))):
            yield from _without(cell, group, i)
    for i, (target, value) in enumerate(cell.body):
        for less in _trees(value):
            body = without_unused([*cell.body[:i], (target, less), *cell.body[i + 1 :]])
            yield replace(cell, body=tuple(body))
    for i, gate in enumerate(cell.gates):
        changes: list[dict[str, object]] = [{"bias": False}] if gate.bias else []
        if gate.recurrent and gate.input and gate.name not in cell.called:
            changes += [{"recurrent": False, "source": ()}]
        changes += [{"input": False}] if gate.recurrent and gate.input else []
        changes += [{"recurrent": True}] if gate.recurrent == "diagonal" else []
        changes += [{"source": ()}] if gate.source else []
        if len(gate.source) > 1:
            changes += [{"source": (source,)} for source in gate.source]
        for change in changes:
            fewer = replace(gate, **change)  # type: ignore[arg-type]
            yield replace(cell, gates=(*cell.gates[:i], fewer, *cell.gates[i + 1 :]))
    for i, given in enumerate(cell.inputs):
        if given.draw is not None:
            passed = replace(given, draw=None)
            yield replace(cell, inputs=(*cell.inputs[:i], passed, *cell.inputs[i + 1 :]))
        if given.form != "full":
            fuller = replace(given, form="full")
            yield replace(cell, inputs=(*cell.inputs[:i], fuller, *cell.inputs[i + 1 :]))
    for group in ("states", "params"):
        values = getattr(cell, group)
        for i, value in enumerate(values):
            if value.value:
                less = replace(value, value=0.0)
                yield replace(cell, **{group: (*values[:i], less, *values[i + 1 :])})


def _without(cell: CellDraw, group: str, i: int) -> Iterator[CellDraw]:
    """The cell without a declaration; a number or another name replaces it."""
    gone = getattr(cell, group)[i].name
    kept = {group: getattr(cell, group)[:i] + getattr(cell, group)[i + 1 :]}
    order = tuple(word for word in cell.order if word != gone)
    body = [(target, value) for target, value in cell.body if target != f"new_{gone}"]
    for stand_in in (number(0.5), name(order[0]) if order else number(1)):
        swapped = [
            (target, _swap(value, {gone: stand_in, f"new_{gone}": stand_in}))
            for target, value in body
        ]
        less = replace(cell, order=order, body=tuple(without_unused(swapped)), **kept)
        if group == "states":
            gates = tuple(
                replace(g, source=tuple(s for s in g.source if s != gone)) for g in less.gates
            )
            less = replace(less, gates=gates)
        yield less


def _swap(node: Node, others: dict[str, Node]) -> Node:
    if node.op == "name":
        return others.get(node.name, node)
    if node.op == "gate" and node.name in others:  # a call: what it multiplies stays
        return _swap(node.args[0], others)
    return replace(node, args=tuple(_swap(a, others) for a in node.args))


_RELATIONAL = ("<", "<=", ">", ">=", "==", "!=", "&", "|", "~")


def _trees(node: Node) -> Iterator[Node]:
    """Smaller trees: a part in place of the whole, or a part made smaller."""
    if node.op not in _RELATIONAL:
        for argument in node.args:
            # What a pass computes has no meaning outside its loop.
            if argument.op not in _RELATIONAL and not argument.names() & set(node.carried):
                yield argument
        if node.op not in ("name", "number"):
            for word in sorted(node.names()):
                yield name(word)
    elif node.op in ("&", "|", "~"):
        yield from node.args
    if node.keywords:
        yield replace(node, keywords=())
    if node.op == "repeat" and node.value > 2:
        yield replace(node, value=2)
    if node.op == "number" and node.value not in (0, 1, 0.5):
        yield number(1)
        yield number(0.5)
    for i, argument in enumerate(node.args):
        for less in _trees(argument):
            yield replace(node, args=(*node.args[:i], less, *node.args[i + 1 :]))
