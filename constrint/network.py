"""The domains and propagators of a set of constraints, over which a search runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import polynomial as poly
from .compile import Compiler
from .constraint import Constraint
from .expression import Variable
from .linear import Linear
from .polynomial import Polynomial
from .product import Product
from .propagator import EXACT, QUICK, SHORT, SLOW, Propagator, Revises
from .share import share
from .store import Store


@dataclass(frozen=True, eq=False)
class Named:
    """A constraint and the name it is known by."""

    name: str
    constraint: Constraint


class Network:
    """Domains and propagators of a set of constraints.

    A product of sums, //, % and powers stand for hidden variables, so that what is left are
    polynomials; so does a product that several constraints share. Hidden variables follow the
    declared ones and are never branched upon.

    Args:
        declared: the variables.
        named: the constraints.
        shared: whether to look for shared products. They tell more, but tie their factors together
            for good, also where the constraints no longer do.

    Attributes:
        definitions: the hidden variables that stand for sums or products: whose they are, and what
            they equal.
        names: what to call the hidden variables that are no constraint's own.
        watchers: for each variable the propagators that look at it.
    """

    def __init__(
        self, declared: Sequence[Variable], named: Sequence[Named], *, shared: bool = True
    ) -> None:
        self.declared = declared
        self.named = named
        self.store = Store([v.domain for v in declared])
        self.propagators: list[Propagator] = []
        self.definitions: dict[int, tuple[int, Polynomial]] = {}
        self.names: dict[int, str] = {}
        for owner, item in enumerate(named):
            Compiler(self, owner).constraint(item.constraint)
        if shared:
            share(self)
        for variable, (owner, polynomial) in self.definitions.items():
            self._define(variable, polynomial, owner)
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

    def _define(self, variable: int, polynomial: Polynomial, owner: int) -> None:
        if owner < 0:
            factors = tuple(poly.scope(polynomial))
            name = f"the product {self.names[variable]}"
            self.post(Product(variable, factors), (variable, *factors), owner, name)
        else:
            equation = poly.plus(polynomial, poly.variable(variable), -1)
            self.post(Linear("==", equation, self.store), poly.scope(equation), owner)

    def rewrite(self, place: int, total: Polynomial) -> None:
        """Let the sum that is propagated there say the same over other variables."""
        old = self.propagators[place]
        assert isinstance(old.acts, Linear)
        # What holds for hidden variables is not known to hold for what they stand for, as yet.
        self.propagators[place] = self._propagator(
            Linear(old.acts.operator, total, self.store), poly.scope(total), old.owner, old.name
        )

    def post(
        self,
        acts: Revises,
        scope: Iterable[int],
        owner: int,
        name: str = "",
        *,
        exact: bool = False,
        whole: bool = False,
    ) -> None:
        """Add a propagator; one that holds by definition has the owner -1 and a name of its own."""
        name = name or self.named[owner].name
        self.propagators.append(self._propagator(acts, scope, owner, name, exact, whole))

    @staticmethod
    def _propagator(
        acts: Revises,
        scope: Iterable[int],
        owner: int,
        name: str,
        exact: bool = False,
        whole: bool = False,
    ) -> Propagator:
        bit = 1 << owner if owner >= 0 else 0
        settles = exact or (isinstance(acts, Linear) and acts.monotone)
        distinct = tuple(dict.fromkeys(scope))
        rank = EXACT if exact else QUICK if len(distinct) <= SHORT else SLOW
        return Propagator(acts, distinct, owner, bit, name, rank, whole, settles)
