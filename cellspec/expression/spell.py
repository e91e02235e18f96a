"""Text of expressions in Python or C++, with only the brackets that the grouping needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..stages.spell import stage_text
from .body import Body

if TYPE_CHECKING:
    from .node import Node

SUM, PRODUCT, SIGN, POWER, ATOM = range(1, 6)
_BINDING = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}


@dataclass(frozen=True)
class Form:
    """Spelling that differs between Python and C++.

    Attributes:
        number: the text of a number and its precedence.
        power: the text of a power and its precedence, from the base's node, the base's text in
            brackets if needed, and the exponent.
        logic: the words for `&`, `|`, `~`, `"true"` and `"false"`.
        exact: whether the sign of a product is written apart, as `-(a*b)` and not `-a*b`. The
            values are equal, but these are two nodes.
        cancel: the text for x - x, with `{}` for x; empty if it is written as it is.
        name: the spelling of a symbol's name.
        function: the spelling of a function's name.
        divide: the function that divides by what is no number; empty for the operator.
    """

    number: Callable[[float], tuple[str, int]]
    power: Callable[[Node, str, int], tuple[str, int]]
    logic: Mapping[str, str]
    exact: bool = False
    cancel: str = ""
    name: Callable[[str], str] = str
    function: Callable[[str], str] = str
    divide: str = ""


def spell(root: Node, form: Form, named: Mapping[Node, str] | None = None) -> str:
    """The text of an expression.

    Args:
        root: the expression.
        form: the language.
        named: names for nodes below the root.
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
            texts[node] = spell_node(node, [texts[a] for a in node.args], form)
    return texts[root][0]


def spell_node(node: Node, args: list[tuple[str, int]], form: Form) -> tuple[str, int]:
    """The text of a node and its precedence.

    Args:
        node: the node.
        args: the texts of its operands and their precedences.
        form: the language.
    """
    op = node.op
    if op == "symbol":
        return form.name(node.name), ATOM
    if op == "number":
        assert isinstance(node.value, int | float)
        return form.number(node.value)
    if op == "call":
        return f"{form.function(node.name)}({', '.join(text for text, _ in args)})", ATOM
    if op == "/" and form.divide and node.args[1].op != "number":
        return f"{form.divide}({args[0][0]}, {args[1][0]})", ATOM
    if op in _BINDING:
        binding = _BINDING[op]
        if op == "-" and node.args[0] is node.args[1] and form.cancel:
            return form.cancel.format(_within(args[0], PRODUCT)), SUM
        left = _within(args[0], binding)
        # A sign after an operator needs brackets.
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
    if op in ("result", "member"):
        return f"{args[0][0]}[{node.value}]", ATOM
    if op in ("gate", "units"):
        return stage_text(node, [text for text, _ in args]), ATOM
    if isinstance(node.value, Body):
        # For people: a loop that is emitted or read back is a statement.
        return f"{op}({node.value.passes}, …, {', '.join(text for text, _ in args)})", ATOM
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
#: Text for people, such as `-a*b`.
PYTHON = Form(_python_number, _python_power, _WORDS)
#: Text for JSON, which reads back as the same node.
EXACT = Form(_python_number, _python_power, _WORDS, exact=True)
