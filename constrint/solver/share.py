"""`share`: one hidden variable for each product that several constraints contain.

`a * b <= 4` and `a * b * c == 64` together imply that c is at least 16. Bounds of a and b cannot
pass this from one constraint to the other, but bounds of their product can.
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

# The most terms of a product of sums that is multiplied out; it may have thousands.
_FEW = 16

Factors = frozenset[tuple[int, int]]


def share(network: Network) -> None:
    """Replace products that several constraints of a network share by hidden variables."""
    definitions, declared = network.definitions, network.declared
    sums = Sums({v.index for v in declared if v.low >= 0})
    # A sum belongs to a propagator, or defines a hidden variable.
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
            # Nothing else uses the hidden variables of these brackets.
            for variable in brackets:
                del definitions[variable]
    for product in sums.shared():
        variable = network.hide(*Term(1, product, network.store).bounds(network.store))
        changed |= sums.replace(product, variable)
        name = f"the product {' * '.join(declared[x].name for x, _ in product)}"
        definitions[variable] = Definition({product: 1}, -1, name)
        # This product may contain smaller products, which follow.
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
    """Sums of products, in which products that several constraints share are replaced.

    Args:
        shareable: the variables of which products are shared.
    """

    def __init__(self, shareable: Set[int]) -> None:
        self.shareable = shareable
        self.owners: list[int] = []
        self.terms: list[list[_Term]] = []
        self._holding: dict[tuple[int, int], dict[_Term, None]] = {}

    def add(self, owner: int, polynomial: Polynomial) -> int:
        """Add a sum of the constraint `owner`; return the sum's number."""
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
        """Multiply out the brackets of a sum if all resulting products are shared.

        In x * (y + z) <= 9, brackets give better bounds of x, and no brackets give better bounds
        of x * y.

        Returns:
            Whether the sum was changed.
        """
        if prod(len(polynomial) for polynomial in brackets.values()) > _FEW:
            return False
        flat = spread(self.polynomial(number), brackets)
        owner = self.owners[number]
        # A power of a bracket is not multiplied out.
        if not brackets.keys().isdisjoint(poly.scope(flat)):
            return False
        if not all(len(m) < 2 or self.elsewhere(owner, m) for m in flat):
            return False
        for term in self.terms[number]:
            term.factors = frozenset()
        self.terms[number] = self._terms(number, flat)
        return True

    def _hosts(self, product: Monomial) -> list[_Term]:
        """The terms that contain, or contained, all these factors."""
        first, *others = (self._holding.get(factor, {}) for factor in product)
        return [term for term in first if all(term in other for other in others)]

    def elsewhere(self, owner: int, monomial: Monomial) -> bool:
        """Return True for a product of shareable variables that another constraint contains."""
        return (
            len(monomial) > 1
            and all(e == 1 and x in self.shareable for x, e in monomial)
            and any(self.owners[term.sum] != owner for term in self._hosts(monomial))
        )

    def shared(self) -> list[Monomial]:
        """The products that other constraints contain too, large ones first."""
        found: dict[Monomial, bool] = {}
        for terms, owner in zip(self.terms, self.owners, strict=True):
            for term in terms:
                monomial = tuple(sorted(term.factors))
                if monomial not in found:
                    found[monomial] = self.elsewhere(owner, monomial)
        return sorted((m for m, elsewhere in found.items() if elsewhere), key=len, reverse=True)

    def replace(self, product: Monomial, variable: int) -> set[int]:
        """Replace a product by a variable; return the numbers of the changed sums."""
        factors = frozenset(product)
        changed = set()
        for term in self._hosts(product):
            if factors <= term.factors:
                term.factors = term.factors - factors | {(variable, 1)}
                changed.add(term.sum)
        return changed

    def polynomial(self, number: int) -> Polynomial:
        """The current form of a sum."""
        return {tuple(sorted(term.factors)): term.coefficient for term in self.terms[number]}


def spread(total: Polynomial, sums: Mapping[int, Polynomial]) -> Polynomial:
    """The polynomial with each variable in `sums` replaced by its sum."""
    out: Polynomial = {}
    for monomial, coefficient in total.items():
        part: Polynomial = {ONE: coefficient}
        for x, e in monomial:
            part = poly.times(part, sums[x] if e == 1 and x in sums else {((x, e),): 1})
        out = poly.plus(out, part)
    return out
