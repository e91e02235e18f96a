"""Nodes as text with the fewest brackets that keep the grouping: the language, and C++."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Node

SUM, PRODUCT, SIGN, POWER, ATOM = range(1, 6)
_BINDING = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}


@dataclass(frozen=True)
class Form:
    """What differs from language to language.

    Attributes:
        number: the text of a number, and how tightly it binds.
        power: the text of a power, from the base's node, its text in brackets where it needs
            them, and the exponent; and how tightly it binds.
        logic: the words for `&`, `|`, `~`, and for `"true"` and `"false"`.
        exact: whether the sign of a product is kept apart: `-(a*b)`, not `-a*b`. Their values are
            the same, but they are two nodes.
        cancel: a sum that is written for x - x, with `{}` for x; nothing where it is written as it
            is.
    """

    number: Callable[[float], tuple[str, int]]
    power: Callable[[Node, str, int], tuple[str, int]]
    logic: Mapping[str, str]
    exact: bool = False
    cancel: str = ""


def spell(root: Node, form: Form, named: Mapping[Node, str] | None = None) -> str:
    """The text of an expression.

    Args:
        root: the expression.
        form: the language.
        named: nodes below the root that are written by a name.
    """
    named = named or {}
    texts: dict[Node, tuple[str, int]] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        if node in texts:
            stack.pop()
            continue
        if node in named and node is not root:
            texts[node] = named[node], ATOM
            continue
        missing = [a for a in node.args if a not in texts]
        if missing:
            stack.extend(reversed(missing))
        else:
            texts[node] = _spelled(node, [texts[a] for a in node.args], form)
    return texts[root][0]


def _spelled(node: Node, args: list[tuple[str, int]], form: Form) -> tuple[str, int]:
    op = node.op
    if op == "symbol":
        return node.name, ATOM
    if op == "number":
        assert isinstance(node.value, int | float)
        return form.number(node.value)
    if op == "call":
        return f"{node.name}({', '.join(text for text, _ in args)})", ATOM
    if op in _BINDING:
        binding = _BINDING[op]
        if op == "-" and node.args[0] is node.args[1] and form.cancel:
            return form.cancel.format(_within(args[0], PRODUCT)), SUM
        left = _within(args[0], binding)
        # A sign stands in brackets behind an operator.
        right = _within(args[1], binding + 1, sign=False)
        return f"{left} {op} {right}" if binding == SUM else f"{left}{op}{right}", binding
    if op == "neg":
        product = node.args[0].op in ("*", "/") and not form.exact
        text = _within(args[0], PRODUCT if product else POWER, sign=False)
        return f"-{text}", PRODUCT if product else SIGN
    if op == "**":
        assert isinstance(node.value, int)
        return form.power(node.args[0], _within(args[0], ATOM), node.value)
    if op in ("&", "|"):
        return f"({args[0][0]} {form.logic[op]} {args[1][0]})", ATOM
    if op == "~":
        return f"{form.logic[op]}{args[0][0]}", ATOM
    if op in ("true", "false"):
        return form.logic[op], ATOM
    return f"({args[0][0]} {op} {args[1][0]})", ATOM


def _within(part: tuple[str, int], at_least: int, sign: bool = True) -> str:
    text, binding = part
    return text if binding >= at_least and (sign or text[0] != "-") else f"({text})"


def _python_number(value: float) -> tuple[str, int]:
    text = repr(value)
    return text, SIGN if text[0] == "-" else ATOM


def _python_power(base: Node, text: str, exponent: int) -> tuple[str, int]:
    return f"{text}**{exponent}", POWER


_WORDS = {"&": "&", "|": "|", "~": "~", "true": "True", "false": "False"}
#: For people: `-a*b`.
PYTHON = Form(_python_number, _python_power, _WORDS)
#: For JSON: read back, it is the same node.
EXACT = Form(_python_number, _python_power, _WORDS, exact=True)
