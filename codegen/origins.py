"""The terms of a cell's equations that values of its programs came from.

A term is a node of the equations. A value comes from a term if its own operation computes the term,
or a part of the term's derivative. What a value only reads is the origin of another value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..cellspec.expression.graph import everywhere, rewritten
from ..cellspec.expression.node import Node, ordered
from ..cellspec.expression.sharing import LOOPS

Origins = Mapping[Node, tuple[Node, ...]]


def of_terms(roots: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """The origins of the equations themselves: each node came from itself.

    Args:
        roots: the new states.
    """
    return {node: (node,) for node in everywhere(roots) if _is_term(node)}


def _is_term(node: Node) -> bool:
    """Return True for a node of an equation. A loop is none, nor are the symbols of its body."""
    if node.is_symbol:
        return "." not in node.name
    # A symbol with the gradient of another value computes nothing.
    while node.op == "call" and node.name == "with_gradient":
        node = node.args[0]
    return bool(node.args) and node.op not in LOOPS


def rewritten_origins(origins: Origins, known: Mapping[Node, Node]) -> dict[Node, tuple[Node, ...]]:
    """The origins after some nodes were replaced, as `rewritten` replaces them.

    Args:
        origins: before.
        known: the replacements.
    """
    found: dict[Node, tuple[Node, ...]] = {}
    for node, new in zip(origins, rewritten(origins, known), strict=True):
        found[new] = joined([found.get(new, ()), origins[node]])
    return found


def joined(parts: Iterable[tuple[Node, ...]]) -> tuple[Node, ...]:
    """All terms of several origins, each once, in their order.

    Args:
        parts: the origins.
    """
    return tuple(dict.fromkeys(term for part in parts for term in part))


class DerivativeOrigins:
    """Records what reverse mode made of each term, and finds it again in the gradients.

    sympy flattens and shares the products of a gradient, so a node of a gradient is found by its
    form: a part of a derivative, such as `1 - y**2`, keeps its form. The factor of a product has
    the form of a value. There it counts that it multiplies a cotangent.
    """

    def __init__(self) -> None:
        self.parts: dict[Node, tuple[Node, ...]] = {}
        self.factors: dict[Node, list[tuple[Node, frozenset[str]]]] = {}
        self.calls: dict[tuple[str, tuple[Node, ...]], tuple[Node, ...]] = {}

    def add_part(self, part: Node, term: Node) -> None:
        """A part of a term's derivative."""
        if part.args:
            self.parts[part] = joined([self.parts.get(part, ()), (term,)])

    def add_factor(self, factor: Node, term: Node, names: frozenset[str]) -> None:
        """A value that multiplies the cotangent of a term, on the way to the gradients of names."""
        self.factors.setdefault(factor, []).append((term, names))

    def add_call(self, name: str, pure: tuple[Node, ...], term: Node) -> None:
        """A function of a cotangent, and its operands that are no cotangents."""
        self.calls[name, pure] = joined([self.calls.get((name, pure), ()), (term,)])

    def find(
        self, gradients: Mapping[str, Node], values: Origins, cotangents: Iterable[Node]
    ) -> dict[Node, tuple[Node, ...]]:
        """The origins of all nodes of the gradients that have one.

        Args:
            gradients: the results of reverse mode, by name.
            values: the terms that are recomputed, as they are written in the gradients.
            cotangents: of the new states.
        """
        found: dict[Node, tuple[Node, ...]] = {}
        dependent = set(cotangents)
        used_by: dict[Node, set[str]] = {}
        for name, root in gradients.items():
            for node in ordered([root]):
                used_by.setdefault(node, set()).add(name)
        for node in ordered(gradients.values()):
            if any(a in dependent for a in node.args):
                dependent.add(node)
            own = [values.get(node, ()), self.parts.get(node, ())]
            if node.op in ("*", "/") and node in dependent:
                factors = [f for a in node.args for f in self.factors.get(a, ())]
                own += [(term,) for term, names in factors if names & used_by[node]]
            if node.op == "call" and node in dependent:
                pure = tuple(a for a in node.args if a not in dependent)
                own.append(self.calls.get((node.name, pure), ()))
            terms = joined(own)
            if terms:
                found[node] = terms
        return found


class Terms:
    """The terms of each value that has no name yet, and those that a name shows.

    Attributes:
        origins: the terms of the equations that nodes came from.
        named_after: by name, the terms that it shows, as `sigmoid_f` does.
        of: by node, the terms of all that a statement up to this node writes.
    """

    def __init__(
        self, origins: Origins, named_after: dict[str, tuple[Node, ...]] | None = None
    ) -> None:
        self.origins = origins
        own = {n.name: terms for n, terms in origins.items() if n.is_symbol}
        self.named_after = own if named_after is None else named_after
        self.of: dict[Node, tuple[Node, ...]] = {}

    def add(self, node: Node, args: tuple[Node, ...]) -> None:
        """Collect the terms of a node and of its arguments up to their names."""
        below = [self.of[a] if a in self.of else self.origins.get(a, ()) for a in args]
        self.of[node] = joined([*below, self.origins.get(node, ())])

    def end(self, node: Node, body: Node, target: Node) -> tuple[Node, ...]:
        """The terms of the statement of a node. Its users begin with what its name shows."""
        found = self.of[node]
        shown: list[tuple[Node, ...]] = []
        if body.op == "call" and target.name in _named_after(body):
            inner = [self.named_after.get(a.name, ()) for a in body.args if a.is_symbol]
            shown = [self.origins.get(node, ()), *inner]
        self.of[node] = self.named_after[target.name] = joined(shown)
        return found


def _named_after(call: Node) -> list[str]:
    """The name of a call's value, `sigmoid_f`, if its argument has a name."""
    return [f"{call.name}_{a.name}" for a in call.args if a.is_symbol]
