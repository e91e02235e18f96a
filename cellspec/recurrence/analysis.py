"""The form of a state's new value in the old values of a part, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..expression.node import Node, number, ordered, symbol
from ..expression.sharing import LOOPS
from ..functions.nodes import is_identity, value_args
from .forms import Affine, MaxAffine, NoFormError
from .sight import States, fed_by_states, states_seen, symbols_that_see, unit_updates
from .words import joined, quoted

if TYPE_CHECKING:
    from ..cell import CellSpec

_Form = TypeVar("_Form", Affine, MaxAffine)


class Analysis:
    """The updates of a cell, seen by the states of one part."""

    def __init__(self, cell: CellSpec, part: tuple[str, ...]) -> None:
        """Look at `cell` from the states of `part`."""
        self.part = part
        symbols = symbols_that_see(cell)
        self._of = {node: states & set(part) for node, states in symbols.items()}
        self._seen = states_seen(unit_updates(cell), self._of)
        self._leaves = dict(_leaves(cell, part))

    def affine(self, update: Node) -> Affine:
        """Return an update as a sum of states times coefficients.

        Raises:
            NoFormError: an operation on the way is none of a sum.
        """
        return self._found(update, self._affine, Affine({}, update))

    def max_affine(self, update: Node) -> MaxAffine:
        """Return an update as the larger of a state plus a value and another value.

        Raises:
            NoFormError: an operation on the way is none of a maximum.
        """
        return self._found(update, self._max_affine, MaxAffine(None, update))

    def _found(
        self, update: Node, form_of: Callable[[Node, dict[Node, _Form]], _Form], free: _Form
    ) -> _Form:
        if not self.sees(update):
            return free
        forms: dict[Node, _Form] = {}
        failed: dict[Node, NoFormError] = {}
        for node in ordered([update]):
            if not self.sees(node):
                continue
            broken = [failed[a] for a in value_args(node) if a in failed]
            try:
                if broken:
                    raise broken[0]
                forms[node] = form_of(node, forms)
            except NoFormError as reason:
                failed[node] = reason
        if update in failed:
            raise failed[update]
        return forms[update]

    def sees(self, node: Node) -> States:
        """Return the states of the part that a value depends on."""
        return self._seen[node]

    def _affine(self, node: Node, forms: dict[Node, Affine]) -> Affine:
        if node.is_symbol:
            return self._leaves[node]
        known = [forms.get(a) or Affine({}, a) for a in node.args]
        if node.op == "neg":
            return known[0].negated()
        if node.op in ("+", "-"):
            return known[0].plus(known[1], node.op)
        if node.op == "*" and not self.sees(node.args[1]):
            return known[0].scaled("*", node.args[1])
        if node.op == "*" and not self.sees(node.args[0]):
            return known[1].scaled("*", node.args[0])
        if node.op == "/" and not self.sees(node.args[1]):
            return known[0].scaled("/", node.args[1])
        if _is_call(node, "where") and not self.sees(node.args[0]):
            return known[1].chosen(node.args[0], known[2])
        if is_identity(node):
            return known[0]
        raise self._no_form(node)

    def _max_affine(self, node: Node, forms: dict[Node, MaxAffine]) -> MaxAffine:
        if node.is_symbol:
            if node.name == self.part[0]:
                return MaxAffine(number(0), None)
            raise NoFormError(f"the gate {node.name} is a product with {self.part[0]}")
        args = node.args
        if node.op in ("+", "-") and not self.sees(args[1]):
            return forms[args[0]].plus(args[1], node.op)
        if node.op == "+" and not self.sees(args[0]):
            return forms[args[1]].plus(args[0])
        if _is_call(node, "maximum"):
            first, second = (forms.get(a) or MaxAffine(None, a) for a in args)
            return first.larger(second)
        if is_identity(node):
            return forms[args[0]]
        raise self._no_form(node)

    def _no_form(self, node: Node) -> NoFormError:
        """Return the reason why a node breaks a form."""
        text, states = quoted(node), joined([s for s in self.part if s in self.sees(node)])
        if node.is_condition:
            return NoFormError(f"the condition {text} reads {states}")
        if node.op in LOOPS:
            return NoFormError(f"a loop reads {states}")
        if node.op == "*":
            return NoFormError(f"{text} is a product of two values that read {states}")
        if node.op == "/":
            return NoFormError(f"{text} divides by a value that reads {states}")
        return NoFormError(
            f"{text} is a {'function' if node.op == 'call' else 'power'} of {states}"
        )


def diagonal_weights(cell: CellSpec, gate: str) -> dict[str, Node]:
    """The symbols of a gate's diagonal weights, by the state that each multiplies."""
    sources = [p.source for p in cell.diagonal_pairs if p.gate == gate]
    several = len(sources) > 1
    return {s: symbol(f"u_{gate},{s}" if several else f"u_{gate}") for s in sources}


def _leaves(cell: CellSpec, part: tuple[str, ...]) -> list[tuple[Node, Affine]]:
    """The forms of symbols: of the part's states, and of gates with weights on them."""
    found = [(symbol(state), Affine({state: number(1)})) for state in part]
    for gate in dict.fromkeys(p.gate for p in fed_by_states(cell)):
        weights = diagonal_weights(cell, gate)
        own = {state: weight for state, weight in weights.items() if state in part}
        found.append((symbol(gate), Affine(own, symbol(gate))))
    return found


def _is_call(node: Node, name: str) -> bool:
    return node.op == "call" and node.name == name
