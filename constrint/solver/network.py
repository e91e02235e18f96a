"""`Network`: the domains and propagators of a set of constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..language.constraint import Constraint
from ..language.variable import Variable
from ..propagators import polynomial as poly
from ..propagators.linear import Linear
from ..propagators.polynomial import Polynomial
from ..propagators.product import Product
from ..propagators.propagator import Definition, Propagator, Revises
from ..propagators.store import Store
from .compile import Compiler
from .share import share


@dataclass(frozen=True, eq=False)
class Named:
    """A constraint and its name."""

    name: str
    constraint: Constraint


class Network:
    """The domains and propagators of a set of constraints.

    Hidden variables replace factors that are sums, //, %, powers, and products that several
    constraints share, so that constraints are polynomials. Hidden variables follow the declared
    variables, and the search never branches on them.

    Args:
        declared: the variables.
        named: the constraints.
        shared: whether to give shared products hidden variables. These narrow more, but connect
            their factors even if the constraints no longer do.

    Attributes:
        definitions: the hidden variables that equal sums or products.
        watchers: for each variable, the propagators that read it.
    """

    def __init__(
        self, declared: Sequence[Variable], named: Sequence[Named], *, shared: bool = True
    ) -> None:
        self.declared = declared
        self.named = named
        self.store = Store([v.domain for v in declared])
        self.propagators: list[Propagator] = []
        self.definitions: dict[int, Definition] = {}
        for owner, item in enumerate(named):
            Compiler(self, owner, item.name).constraint(item.constraint)
        if shared:
            share(self)
        for variable, definition in self.definitions.items():
            self.propagators.append(self._defining(variable, definition))
        self.watchers: list[list[int]] = [[] for _ in self.store.low]
        for number, propagator in enumerate(self.propagators):
            for x in propagator.scope:
                self.watchers[x].append(number)

    def hide(self, low: int, high: int) -> int:
        """A new hidden variable with these bounds."""
        store = self.store
        store.low.append(low)
        store.high.append(high)
        store.values.append(None)
        store.why.append(0)
        return len(store.low) - 1

    def _defining(self, variable: int, definition: Definition) -> Propagator:
        acts: Revises
        if definition.owner < 0:
            factors = tuple(poly.scope(definition.polynomial))
            acts, scope = Product(variable, factors), (variable, *factors)
        else:
            equation = poly.plus(definition.polynomial, poly.variable(variable), -1)
            acts, scope = Linear("==", equation, self.store), tuple(poly.scope(equation))
        return Propagator.of(acts, scope, definition.owner, definition.name)

    def rewrite(self, place: int, total: Polynomial) -> None:
        """Replace the sum of a propagator by an equal sum over other variables."""
        old = self.propagators[place]
        assert isinstance(old.acts, Linear)
        acts = Linear(old.acts.operator, total, self.store)
        # Not `whole`: the sum may hold for a hidden variable before it holds for its factors.
        self.propagators[place] = Propagator.of(acts, poly.scope(total), old.owner, old.name)
