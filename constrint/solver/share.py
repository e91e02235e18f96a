"""Products that stand in several constraints: each gets one hidden variable.

`a * b <= 4` and `a * b * c == 64` say more together than apart: c is at least 16. Bounds of a and b
alone cannot carry that from one constraint to the other; bounds of the product can.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ..propagators import polynomial as poly
from ..propagators.linear import Linear
from ..propagators.polynomial import ONE, Monomial, Polynomial
from ..propagators.propagator import Definition
from ..propagators.term import Term

if TYPE_CHECKING:
    from .network import Network

# Brackets are multiplied out only if so few terms come out: a product of sums may have thousands.
_FEW = 16

Factors = frozenset[tuple[int, int]]


def share(network: Network) -> None:
    """Put hidden variables in the place of products that several constraints of a network share."""
    definitions, declared = network.definitions, network.declared
    sums = Sums({v.index for v in declared if v.low >= 0})
    # A sum is that of a propagator or defines a hidden variable.
    places: dict[int, int] = {}
    defined: dict[int, Definition] = {}
    for place, propagator in enumerate(network.propagators):
        if isinstance(propagator.acts, Linear):
            places[sums.add(propagator.owner, propagator.acts.polynomial)] = place
    for definition in definitions.values():
        defined[sums.add(definition.owner, definition.polynomial)] = definition
    changed: set[int] = set()
    for number in places:
        brackets = {x: definitions[x].polynomial for x in sums.scope(number) if x in definitions}
        if brackets and sums.open(number, brackets):
            changed.add(number)
            # Nothing else looks at what stood for the brackets.
            for variable in brackets:
                del definitions[variable]
    for product in sums.shared():
        variable = network.hide(*Term(1, product, network.store).bounds(network.store))
        changed |= sums.replace(product, variable)
        name = f"the product {' * '.join(declared[x].name for x, _ in product)}"
        definitions[variable] = Definition({product: 1}, -1, name)
        # Smaller products, which follow, may be replaced in this one.
        defined[sums.add(-1, {product: 1})] = definitions[variable]
    for number in sorted(changed):
        if number in places:
            network.rewrite(places[number], sums.polynomial(number))
        else:
            defined[number].polynomial = sums.polynomial(number)


@dataclass(eq=False, slots=True)
class _Term:
    sum: int
    coefficient: int
    factors: Factors


class Sums:
    """Sums of products, to find and replace what several constraints share.

    Args:
        shareable: the variables of which products are shared.
    """

    def __init__(self, shareable: Set[int]) -> None:
        self.shareable = shareable
        self.owners: list[int] = []
        self.terms: list[list[_Term]] = []
        self._holding: dict[tuple[int, int], dict[_Term, None]] = {}

    def add(self, owner: int, polynomial: Polynomial) -> int:
        """Take in another sum, of the constraint `owner`; the sum's number."""
        number = len(self.terms)
        self.terms.append(self._terms(number, polynomial))
        self.owners.append(owner)
        return number

    def _terms(self, number: int, polynomial: Polynomial) -> list[_Term]:
        terms = [_Term(number, c, frozenset(m)) for m, c in polynomial.items()]
        for term in terms:
            for factor in term.factors:
                self._holding.setdefault(factor, {})[term] = None
        return terms

    def scope(self, number: int) -> set[int]:
        """The variables of a sum."""
        return {x for term in self.terms[number] for x, _ in term.factors}

    def open(self, number: int, brackets: Mapping[int, Polynomial]) -> bool:
        """Multiply brackets out, where all products that come out are shared; whether it is done.

        Of x * (y + z) <= 9, bounds of x are seen best with brackets, those of x * y without.
        """
        if prod(len(polynomial) for polynomial in brackets.values()) > _FEW:
            return False
        flat = spread(self.polynomial(number), brackets)
        owner = self.owners[number]
        # A power of a bracket stays one.
        if not brackets.keys().isdisjoint(poly.scope(flat)):
            return False
        if not all(len(m) < 2 or self.elsewhere(owner, m) for m in flat):
            return False
        for term in self.terms[number]:
            term.factors = frozenset()
        self.terms[number] = self._terms(number, flat)
        return True

    def _hosts(self, product: Monomial) -> list[_Term]:
        """The terms that have, or had, all these factors."""
        first, *others = (self._holding.get(factor, {}) for factor in product)
        return [term for term in first if all(term in other for other in others)]

    def elsewhere(self, owner: int, monomial: Monomial) -> bool:
        """Whether it is a product of such variables that another constraint has too."""
        return (
            len(monomial) > 1
            and all(e == 1 and x in self.shareable for x, e in monomial)
            and any(self.owners[term.sum] != owner for term in self._hosts(monomial))
        )

    def shared(self) -> list[Monomial]:
        """The terms that other constraints have too, alone or as a factor; large ones first."""
        found: dict[Monomial, bool] = {}
        for terms, owner in zip(self.terms, self.owners, strict=True):
            for term in terms:
                monomial = tuple(sorted(term.factors))
                if monomial not in found:
                    found[monomial] = self.elsewhere(owner, monomial)
        return sorted((m for m, elsewhere in found.items() if elsewhere), key=len, reverse=True)

    def replace(self, product: Monomial, variable: int) -> set[int]:
        """Put a variable in the place of a product; the numbers of the sums that had it."""
        factors = frozenset(product)
        changed = set()
        for term in self._hosts(product):
            if factors <= term.factors:
                term.factors = term.factors - factors | {(variable, 1)}
                changed.add(term.sum)
        return changed

    def polynomial(self, number: int) -> Polynomial:
        """A sum as it is by now."""
        return {tuple(sorted(term.factors)): term.coefficient for term in self.terms[number]}


def spread(total: Polynomial, sums: Mapping[int, Polynomial]) -> Polynomial:
    """The polynomial with the sum in the place of every variable that stands for one."""
    out: Polynomial = {}
    for monomial, coefficient in total.items():
        part: Polynomial = {ONE: coefficient}
        for x, e in monomial:
            part = poly.times(part, sums[x] if e == 1 and x in sums else {((x, e),): 1})
        out = poly.plus(out, part)
    return out
