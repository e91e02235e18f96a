"""Loops as nodes: a closed body, what it starts from, and its results.

A `"repeat"` node runs its body, whose roots become the carried values of the next pass. The body
reads the carried values as the symbols `c.0`, `c.1`, …, and values that no pass changes as `u.0`,
`u.1`, …. The node's arguments are the first carried values, then the values that do not change. So
a walk over a graph sees a loop as one operation, and each such value is computed before it.

An `"unwind"` node runs the passes of a loop backwards. Its arguments are the loop's node and the
cotangents of the loop's results. Its body reads what the loop's body reads, the cotangents of the
pass's results as `d_c.0`, `d_c.1`, …, and sums as `s.0`, `s.1`, …, which begin at 0. Its roots are
the cotangents of the carried values, then the sums, each of which is the gradient of a value that
does not change.

A `"result"` node is a value after the last pass; its value is its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..stages.nodes import STAGES
from .body import Body
from .graph import everywhere, rewritten
from .node import Node, make, ordered, symbol

#: The most passes of a loop.
MOST_PASSES = 65_536


def carried(place: int) -> Node:
    """The symbol of a carried value in its loop's body."""
    return symbol(f"c.{place}")


def unchanged(place: int) -> Node:
    """The symbol of a value that no pass changes, in the body of a loop."""
    return symbol(f"u.{place}")


def cotangent(place: int) -> Node:
    """The symbol of the cotangent of a carried value after a pass, in the body of `unwind`."""
    return symbol(f"d_c.{place}")


def running_sum(place: int) -> Node:
    """The symbol of a sum in the body of `unwind`."""
    return symbol(f"s.{place}")


def body_of(loop: Node) -> Body:
    """The body of a `"repeat"` or `"unwind"` node."""
    assert isinstance(loop.value, Body)
    return loop.value


def starts_of(loop: Node) -> tuple[Node, ...]:
    """Return what the carried values of a `"repeat"` node are before the first pass."""
    return loop.args[: len(body_of(loop).roots)]


def unchanged_of(loop: Node) -> tuple[Node, ...]:
    """The values of a `"repeat"` node that no pass changes."""
    return loop.args[len(body_of(loop).roots) :]


def results_of(loop: Node) -> tuple[Node, ...]:
    """The values of a loop after its last pass."""
    return tuple(make("result", place, (loop,)) for place in range(len(body_of(loop).roots)))


def repeated(
    passes: int, starts: Sequence[Node], symbols: Sequence[Node], roots: Sequence[Node], since: int
) -> tuple[Node, ...]:
    """The results of a loop.

    Args:
        passes: how often the body runs.
        starts: the carried values before the first pass.
        symbols: what stands for the carried values in `roots`.
        roots: the carried values after a pass.
        since: a tag from before the body was made. A call with a tag of its own that was made since
            then belongs to each pass, because its gradient is not linear.
    """
    inside, varies, before = set(symbols), set(symbols), dict[Node, None]()
    for node in ordered(roots):
        if any(a in varies for a in node.args):
            varies.add(node)
        if node.op in STAGES and node not in varies:
            before[node] = None  # whatever its arguments are: no pass exchanges values of units
        elif _is_tagged(node, since) or any(a in inside for a in node.args):
            inside.add(node)
    # A condition that a pass reads has no name in generated code outside its expression.
    conditions = [a for node in inside for a in node.args if a.is_condition]
    while conditions:
        condition = conditions.pop()
        if condition not in inside:
            inside.add(condition)
            conditions += [a for a in condition.args if a.is_condition]
    read = [a for node in ordered(roots, stop=before) if node in inside for a in node.args]
    outer = dict.fromkeys(
        n for n in (*read, *roots) if n not in inside and not n.is_number and not n.is_condition
    )
    known = {node: carried(i) for i, node in enumerate(symbols)}
    known |= {node: unchanged(i) for i, node in enumerate(outer)}
    body = Body(passes, tuple(rewritten(roots, known)))
    return results_of(make("repeat", body, (*starts, *outer)))


def unwound(loop: Node, cotangents: Sequence[Node], roots: Iterable[Node]) -> tuple[Node, ...]:
    """The results of running a loop backwards.

    Args:
        loop: a `"repeat"` node.
        cotangents: of its results.
        roots: the cotangents of the carried values before a pass, then the sums after it.
    """
    body = Body(body_of(loop).passes, tuple(roots))
    return results_of(make("unwind", body, (loop, *cotangents)))


def _is_tagged(node: Node, since: int) -> bool:
    """Return True if a node is a call of its own since a tag, or a loop that has one inside."""
    if isinstance(node.value, Body):
        return any(n.tag is not None and n.tag < since for n in everywhere(node.value.roots))
    return node.op == "call" and node.tag is not None and node.tag < since
