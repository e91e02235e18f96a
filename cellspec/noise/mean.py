"""A cell whose drawn inputs have their means, and the places where a mean is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..declare import Constant
from ..expression.body import Body
from ..expression.graph import with_args
from ..expression.lines import LONGEST_LINE
from ..expression.loops import carried, unchanged
from ..expression.node import Node, ordered, symbol
from ..functions.nodes import is_identity, value_args

if TYPE_CHECKING:
    from ..cell import CellSpec

# The drawn inputs that a value depends on.
_Drawn = frozenset[str]


def with_means(cell: CellSpec) -> dict[str, Any]:
    """The fields in which a cell differs from `cell.mean()`: a constant for each drawn input.

    A mean of 0 that is added is left out, so that a cell with noise has the source of one without.

    Args:
        cell: with a drawn input.
    """
    values = cell.constant_values
    means = [Constant(name=name, value=draw.mean(values)) for name, draw in cell.drawn.items()]
    zeros = {symbol(m.name) for m in means if m.value == 0}
    new = _without_zeros((*cell.updates, *(node for node, _ in cell.variables)), zeros)
    updates = tuple(new[update] for update in cell.updates)
    fields: dict[str, Any] = {}
    if len(set(updates)) == len(updates):  # two states keep two values
        named = tuple((new[node], name) for node, name in cell.variables if new[node].args)
        fields = {"updates": updates, "variables": named}
    used = {leaf.name for root in fields.get("updates", cell.updates) for leaf in root.free_symbols}
    return {
        "inputs": tuple(i for i in cell.inputs if i.name not in cell.drawn),
        "constants": tuple(c for c in (*cell.constants, *means) if c.name in used),
        **fields,
    }


def _without_zeros(roots: tuple[Node, ...], zeros: set[Node]) -> dict[Node, Node]:
    """Return each node without zeros that are added or subtracted."""
    new: dict[Node, Node] = {}
    for node in ordered(roots):
        args = tuple(new[a] for a in node.args)
        if node.op in ("+", "-") and args[1] in zeros:
            new[node] = args[0]
        elif node.op == "+" and args[0] in zeros:
            new[node] = args[1]
        else:
            new[node] = with_args(node, args)
    return new


def bends(cell: CellSpec) -> tuple[tuple[str, Node], ...]:
    """Return where a drawn value of a step passes anything but + and ·, each with its names.

    The mean of such a node is not what the node gives for the mean. A product is in order where
    its factors depend on different draws, which are independent.

    Args:
        cell: with drawn inputs, or without.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, Input, State, normal, tanh
        >>> from rnnc.cellspec.noise.mean import bends
        >>> @rnnc.cell
        ... def noisy(g: Gate, h: State, *, xi: Input = normal(), eta: Input = normal()):
        ...     return tanh(g + xi) + eta
        >>> bends(noisy)
        (('xi', tanh(g + xi)),)
    """
    leaves = {symbol(name): frozenset((name,)) for name in cell.drawn}
    found: dict[Node, str] = {}
    for node, drawn in _bent(cell.updates, leaves.get):
        found.setdefault(node, ", ".join(name for name in cell.drawn if name in drawn))
    return tuple((names, node) for node, names in found.items())


def notes_on_draws(cell: CellSpec) -> tuple[str, ...]:
    r"""A line for each drawn input, then one for each place where its mean is not enough.

    Args:
        cell: with drawn inputs, or without.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, Input, State, normal, tanh
        >>> from rnnc.cellspec.noise.mean import notes_on_draws
        >>> @rnnc.cell
        ... def noisy(g: Gate, h: State, *, xi: Input = normal(std=0.5)):
        ...     return tanh(g + xi) + xi
        >>> print("\n".join(notes_on_draws(noisy)))
        xi is drawn by the call where it is not passed; without samples it is its mean, 0
        the mean of tanh(g + xi) is not its value at the mean of xi
    """
    return (
        *(
            f"{name} is drawn by the call where it is not passed; without samples it is its mean,"
            f" {draw.mean(cell.constant_values):g}"
            for name, draw in cell.drawn.items()
        ),
        *(
            f"the mean of {_shortened(str(node))} is not its value at the mean of {names}"
            for names, node in bends(cell)
        ),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_LINE // 2 else f"{text[: LONGEST_LINE // 2 - 1]}…"


def _bent(
    roots: tuple[Node, ...], drawn_of: Callable[[Node], _Drawn | None]
) -> Iterator[tuple[Node, _Drawn]]:
    """Find the first nodes that bend what is drawn; those that read them are not named again."""
    drawn: dict[Node, _Drawn] = {}
    for node in ordered(roots):
        each = [drawn[a] for a in value_args(node)]
        together = frozenset[str]().union(*each)
        bent = _bends(node, each)
        if bent:
            yield node, together
        drawn[node] = drawn_of(node) or (frozenset() if bent else together)


def _bends(node: Node, each: list[_Drawn]) -> bool:
    """Return whether a node does more than add and multiply what is drawn."""
    if not any(each) or node.op in ("+", "-", "neg", "result"):
        return False
    if node.op == "gate" or (node.op == "units" and node.name in ("mean", "total")):
        return False
    if node.op == "*":
        return bool(each[0] & each[1])
    if node.op == "/":
        return bool(each[1])
    if is_identity(node):
        return False
    if node.op == "call" and node.name == "lerp":
        return bool((each[0] | each[1]) & each[2])
    if isinstance(node.value, Body):
        return _loop_bends(node.value, each)
    return True


def _loop_bends(body: Body, each: list[_Drawn]) -> bool:
    """Return whether a loop bends what it carries, or what no pass changes, in any pass."""
    count = len(body.roots)
    every = frozenset[str]().union(*each)
    leaves = {carried(i): every for i in range(count)}
    leaves |= {unchanged(i): own for i, own in enumerate(each[count:])}
    return any(True for _ in _bent(body.roots, leaves.get))
