"""`Node`: expressions as their author wrote them, shared and never simplified.

A node is an operation and its arguments, in the author's order and grouping. Nodes with the same
operation and the same arguments are one object. So `==` is identity, a value that is used twice is
stored once, and a graph costs no more than its nodes. Calls of a function whose gradient is not
linear also have a tag: each call that is written is a node of its own, because the gradient of a
sum is then not the sum of the gradients. No function here recurses, because a chain may have
thousands of nodes.
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
from .body import Body
from .spell import PYTHON, spell

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGIC = ("&", "|", "~")
#: Whole numbers below this are exact as doubles.
_WHOLE = 2**53
#: A power n is generated as n - 1 products.
LARGEST_EXPONENT = 1024

Value = str | int | float | Body | None


class Node:
    """One operation of an expression, made by the functions of this module.

    Attributes:
        op: `"symbol"`, `"number"`, `"true"`, `"false"`, `"neg"`, one of `+ - * /`, `"**"`, a
            comparison such as `"<"`, one of `& | ~`, `"call"` for a function of the table, or for
            loops `"repeat"`, `"unwind"` and `"result"` (`loops.py`).
        value: a symbol's or function's name, a number, the whole exponent of a power, the body of
            a loop, or the place of a loop's result.
        args: the operands in order.
        tag: a number that tells calls of a function with the same operands apart, if the function's
            gradient is not linear, and the values that a traced body carries; else None.

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
        """True if it is a symbol, a number or a truth value."""
        return not self.args

    @property
    def is_symbol(self) -> bool:
        """True if it is a symbol."""
        return self.op == "symbol"

    @property
    def is_number(self) -> bool:
        """True if it is a plain number."""
        return self.op == "number"

    @property
    def is_condition(self) -> bool:
        """True if its value is true or false."""
        return self.op in COMPARISONS or self.op in LOGIC or self.op in ("true", "false")

    @property
    def free_symbols(self) -> set[Node]:
        """The symbols in it."""
        return {node for node in ordered([self]) if node.op == "symbol"}

    # Operators, so that code builds expressions as a cell's author does.

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

    # A node is a value: a copy is the node itself, and a pickle lists its nodes.

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
# Negative, because the tags of a cell's nodes are 0, 1, ….
_fresh_tags = count(-1, -1)


def make(op: str, value: Value = None, args: tuple[Node, ...] = (), tag: int | None = None) -> Node:
    """The node of an operation on arguments, without any simplification."""
    # By `repr`, because 0 and -0.0 are two numbers that Python calls equal.
    key = (op, value if isinstance(value, Body) else repr(value), tag, *args)
    with _lock:
        node = _nodes.get(key)
        if node is None:
            node = Node()
            node.op, node.value, node.args, node.tag = op, value, args, tag
            _nodes[key] = node
    return node


def symbol(name: str) -> Node:
    """The symbol with this name."""
    return make("symbol", name)


def truth(value: bool) -> Node:
    """True or false."""
    return make("true" if value else "false")


def number(value: float) -> Node:
    """A finite number: an int if it is whole and exact as a double, else a float.

    Raises:
        CellError: it is infinite, NaN, or too large for a double.
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
            "a large number such as 1e30, or where(condition, a, b) for a special case",
        )
    negative_zero = exact == 0 and math.copysign(1, exact) < 0
    whole = exact.is_integer() and abs(exact) < _WHOLE and not negative_zero
    return make("number", int(exact) if whole else exact)


def node_of(value: Node | float) -> Node:
    """The node of a Python number; a node as it is."""
    if isinstance(value, Node):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{value!r} is neither an expression nor a number")
    return number(float(value) if not isinstance(value, int) else value)


def binary(op: str, left: Node, right: Node) -> Node:
    """A sum, difference, product or quotient; of conditions, one that `&` or `|` joins."""
    return make(op, None, (left, right))


def negative(value: Node) -> Node:
    """The value with the opposite sign; a number for a number."""
    if value.op == "number":
        assert isinstance(value.value, int | float)
        return number(-float(value.value))
    return make("neg", None, (value,))


def power(base: Node, exponent: int) -> Node:
    """A power with a whole exponent; exponent 0 gives 1 and exponent 1 gives the base.

    Raises:
        CellError: the exponent is larger than `LARGEST_EXPONENT`.
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
    """A comparison, also of equal nodes, because a value may be NaN."""
    return make(op, None, (left, right))


def negated(condition: Node) -> Node:
    """A condition that holds if another does not."""
    return make("~", None, (condition,))


def call(name: str, *args: Node) -> Node:
    """A call of a function of the table."""
    return make("call", name, args)


def call_of_its_own(name: str, *args: Node) -> Node:
    """A call of a function of the table, as a new node each time."""
    return make("call", name, args, fresh_tag())


def fresh_tag() -> int:
    """A tag that no node has. Each is smaller than those before it."""
    return next(_fresh_tags)


def ordered(roots: Iterable[Node], stop: Mapping[Node, Any] | None = None) -> list[Node]:
    """Each node below the roots once, arguments before their users and left before right.

    Args:
        roots: where to start.
        stop: nodes whose arguments are not visited.
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
    """The number of nodes of the expression written out, shared nodes counted each time."""
    sizes: dict[Node, int] = {}
    for node in ordered([root]):
        sizes[node] = 1 + sum(sizes[a] for a in node.args)
    return sizes[root]


def _unpacked(packed: list[tuple[str, Value, list[int], int | None]]) -> Node:
    nodes: list[Node] = []
    for op, value, places, tag in packed:
        nodes.append(make(op, value, tuple(nodes[i] for i in places), tag))
    return nodes[-1]
