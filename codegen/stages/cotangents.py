"""The cotangents of what units exchange, in terms of what the backward's exchanges give."""

from __future__ import annotations

from collections.abc import Mapping

from ...cellspec.expression.graph import rewritten
from ...cellspec.expression.node import Node, call, compare, number, symbol
from .exchange import Product, Statistic
from .lower import Lowered


def returned(name: str) -> str:
    """The name of what an exchange of the backward gives.

    Args:
        name: of a called gate, whose transposed weights multiply its gradient; or of a number of a
            head, whose gradients are summed over the units.
    """
    return f"d_{name}_back"


def cotangents_of_arguments(low: Lowered, known: Mapping[Node, Node]) -> dict[Node, Node]:
    """By the symbol of an argument's cotangent, what it is.

    Args:
        low: the equations of a cell.
        known: replacements of values that the backward reads.
    """
    terms: dict[str, list[Node]] = {name: [] for name in low.arguments}
    for each in low.exchanged:
        if isinstance(each, Product):
            terms[each.argument].append(symbol(returned(each.gate)))
            continue
        for name in each.arguments:
            (value,) = rewritten([low.arguments[name]], known)
            terms[name].append(_pulled_back(each, value))
    return {symbol(f"d_{name}"): _sum(parts) for name, parts in terms.items()}


def _pulled_back(statistic: Statistic, value: Node) -> Node:
    """The cotangent of one of a statistic's arguments."""
    sums = [symbol(returned(name)) for name in statistic.differentiable]
    names = [symbol(name) for name in statistic.names]
    match statistic.kind:
        case "largest":
            has = compare("!=", symbol(statistic.mark), number(0))
            return call("where", has, sums[0] / names[1], number(0))
        case "softmax":
            return call("exp", value - names[1]) * sums[0]
        case "moments":
            total = sums[0] + number(2) * (value - names[0]) * sums[1]
            count = len(statistic.arguments)
            return total if count == 1 else total / number(count)
    return sums[0]


def returned_exchanges(low: Lowered) -> list[Product | Statistic]:
    """The products and sums of the backward, each after those that it reads."""
    found: list[Product | Statistic] = []
    for each in reversed(low.exchanged):
        if isinstance(each, Product):
            found.append(Product(each.gate, returned(each.gate), each.dense))
            continue
        kind = "mean" if each.kind in ("mean", "moments") else "total"
        names = each.differentiable
        found += [Statistic(kind, (returned(name),), (f"d_{name}",)) for name in names]
    return found


def _sum(terms: list[Node]) -> Node:
    total, *rest = terms
    for term in rest:
        total = total + term
    return total
