"""Expressions as their author wrote them: shared nodes that are never simplified.

A node is an operation and its arguments, in the author's order and grouping. Two nodes with the
same operation and the same arguments are one object, so `==` is identity, a value that is used
twice is kept once, and a graph with many paths costs no more than its nodes. An application of a
function whose gradient is not linear has a tag besides: two that are written are two nodes, since
what comes back to each is not what comes back to both. Nothing here recurses: a chain may be
thousands of nodes long.
"""

from __future__ import annotations

import math
import numbers
import threading
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from ..errors import CellError
from .spell import PYTHON, spell

ARITHMETIC = ("+", "-", "*", "/")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGIC = ("&", "|", "~")
#: Whole numbers below it are exact in every arithmetic on doubles.
_WHOLE = 2**53
#: A power n is written as products, and counts as n - 1 of them.
LARGEST_EXPONENT = 1024

Value = str | int | float | None


class Node:
    """One operation of an expression; made by the functions of this module.

    Attributes:
        op: `"symbol"`, `"number"`, `"true"`, `"false"`, `"neg"`, one of `+ - * /`, `"**"`, a
            comparison such as `"<"`, one of `& | ~`, or `"call"` for a function of the table.
        value: a symbol's or function's name, a number, or the whole exponent of a power.
        args: the operands in order.
        tag: what tells an application from others of the same function to the same operands, where
            the function's gradient is not linear; else None.

    Example:
        >>> import rnnc
        >>> update = rnnc.cells.minimal_rnn.updates[0]
        >>> update.op, [str(a) for a in update.args]
        ('+', ['sigmoid(u)*h', '(1 - sigmoid(u))*tanh(z)'])
    """

    __slots__ = ("__weakref__", "args", "op", "tag", "value")

    op: str
    value: Value
    args: tuple[Node, ...]
    tag: int | None

    @property
    def name(self) -> str:
        """The name of a symbol or of a called function."""
        return str(self.value)

    @property
    def is_leaf(self) -> bool:
        """Whether it is a symbol, a number or a truth value."""
        return not self.args

    @property
    def is_symbol(self) -> bool:
        """Whether it is a name of the signature."""
        return self.op == "symbol"

    @property
    def is_number(self) -> bool:
        """Whether it is a plain number."""
        return self.op == "number"

    @property
    def is_condition(self) -> bool:
        """Whether its value is true or false."""
        return self.op in COMPARISONS or self.op in LOGIC or self.op in ("true", "false")

    @property
    def free_symbols(self) -> set[Node]:
        """The symbols in it."""
        return {node for node in ordered([self]) if node.op == "symbol"}

    # Operators, so that whoever builds expressions writes them like a cell's author.

    def __add__(self, other: Node | float) -> Node:
        return binary("+", self, node_of(other))

    def __radd__(self, other: float) -> Node:
        return binary("+", node_of(other), self)

    def __sub__(self, other: Node | float) -> Node:
        return binary("-", self, node_of(other))

    def __rsub__(self, other: float) -> Node:
        return binary("-", node_of(other), self)

    def __mul__(self, other: Node | float) -> Node:
        return binary("*", self, node_of(other))

    def __rmul__(self, other: float) -> Node:
        return binary("*", node_of(other), self)

    def __truediv__(self, other: Node | float) -> Node:
        return binary("/", self, node_of(other))

    def __rtruediv__(self, other: float) -> Node:
        return binary("/", node_of(other), self)

    def __pow__(self, exponent: int) -> Node:
        return power(self, exponent)

    def __neg__(self) -> Node:
        return negative(self)

    # A node is a value: a copy is itself, and it travels between processes node by node.

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, memo: Any = None) -> Node:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        nodes = ordered([self])
        places = {node: i for i, node in enumerate(nodes)}
        return _unpacked, ([(n.op, n.value, [places[a] for a in n.args], n.tag) for n in nodes],)

    def __repr__(self) -> str:
        if tree_size(self) > 2000:
            return f"an expression of {len(ordered([self]))} nodes"
        return spell(self, PYTHON)


_nodes: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()
_lock = threading.Lock()
# Below zero: the tags of a cell's own nodes are 0, 1, ….
_fresh_tags = count(-1, -1)


def make(op: str, value: Value = None, args: tuple[Node, ...] = (), tag: int | None = None) -> Node:
    """The node of an operation on arguments, taken as they are."""
    # 0 and -0.0 are equal in Python, and are two numbers.
    key = (op, repr(value), tag, *args)
    with _lock:
        node = _nodes.get(key)
        if node is None:
            node = Node()
            node.op, node.value, node.args, node.tag = op, value, args, tag
            _nodes[key] = node
    return node


def symbol(name: str) -> Node:
    """A name."""
    return make("symbol", name)


def truth(value: bool) -> Node:
    """True or false."""
    return make("true" if value else "false")


def number(value: float) -> Node:
    """A finite number: whole ones that a double holds exactly as such, all others as doubles.

    Raises:
        CellError: it is infinite, no number, or beyond every double.
    """
    try:
        exact = float(value)
    except OverflowError:
        exact = math.inf
    if not math.isfinite(exact):
        digits = str(value) if isinstance(value, float) else "of more than 308 digits"
        raise CellError(
            f"the number {digits}",
            "a finite number",
            "a large one such as 1e30, or where(condition, a, b) for a case of its own",
        )
    negative_zero = exact == 0 and math.copysign(1, exact) < 0
    whole = exact.is_integer() and abs(exact) < _WHOLE and not negative_zero
    return make("number", int(exact) if whole else exact)


def node_of(value: Node | float) -> Node:
    """A node as it is, a Python number as a node."""
    if isinstance(value, Node):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{value!r} is neither an expression nor a number")
    return number(float(value) if not isinstance(value, int) else value)


def binary(op: str, left: Node, right: Node) -> Node:
    """A sum, difference, product or quotient."""
    return make(op, None, (left, right))


def negative(value: Node) -> Node:
    """The value with the other sign; of a number, that number."""
    if value.op == "number":
        assert isinstance(value.value, int | float)
        return number(-float(value.value))
    return make("neg", None, (value,))


def power(base: Node, exponent: int) -> Node:
    """A power with a whole exponent; 0 gives 1 and 1 the base, as in torch.

    Raises:
        CellError: the exponent is beyond what products can spell.
    """
    if abs(exponent) > LARGEST_EXPONENT:
        raise CellError(
            f"a power with the exponent {str(exponent) if abs(exponent) < 10**20 else '…'}",
            f"an exponent of at most {LARGEST_EXPONENT}: it is written as products",
            "exp(p * log(x)), for x above 0",
        )
    if exponent in (0, 1):
        return base if exponent else number(1)
    return make("**", int(exponent), (base,))


def compare(op: str, left: Node, right: Node) -> Node:
    """A comparison; it is not decided here, since a value may be NaN."""
    return make(op, None, (left, right))


def both(left: Node, right: Node) -> Node:
    """A condition that holds where two do."""
    return make("&", None, (left, right))


def either(left: Node, right: Node) -> Node:
    """A condition that holds where one of two does."""
    return make("|", None, (left, right))


def negated(condition: Node) -> Node:
    """A condition that holds where another does not."""
    return make("~", None, (condition,))


def call(name: str, *args: Node) -> Node:
    """A function of the table, applied."""
    return make("call", name, args)


def call_of_its_own(name: str, *args: Node) -> Node:
    """A function of the table, applied: another node at every call."""
    return make("call", name, args, next(_fresh_tags))


def ordered(roots: Iterable[Node], stop: Mapping[Node, Any] | None = None) -> list[Node]:
    """Every node below the roots once, arguments before their users, left before right.

    Args:
        roots: where to start.
        stop: nodes whose arguments are not looked at.
    """
    found: dict[Node, None] = {}
    for root in roots:
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                found[node] = None
            elif node not in found:
                stack.append((node, True))
                if stop is None or node not in stop:
                    stack.extend((a, False) for a in reversed(node.args) if a not in found)
    return list(found)


def tree_size(root: Node) -> int:
    """How many nodes the expression has where it is written out, shared ones again and again."""
    sizes: dict[Node, int] = {}
    for node in ordered([root]):
        sizes[node] = 1 + sum(sizes[a] for a in node.args)
    return sizes[root]


def _unpacked(packed: list[tuple[str, Value, list[int], int | None]]) -> Node:
    nodes: list[Node] = []
    for op, value, places, tag in packed:
        nodes.append(make(op, value, tuple(nodes[i] for i in places), tag))
    return nodes[-1]
