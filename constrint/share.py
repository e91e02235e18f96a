"""Products that stand in several constraints: each gets one hidden variable.

`a * b <= 4` and `a * b * c == 64` say more together than apart: c is at least 16. Bounds of a and b
alone cannot carry that from one constraint to the other; bounds of the product can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import polynomial as poly
from .linear import Linear, Term
from .polynomial import ONE, Monomial, Polynomial

if TYPE_CHECKING:
    from .network import Network

Factors = frozenset[tuple[int, int]]


def share(network: Network) -> None:
    """Put hidden variables in the place of products that several constraints of a network share."""
    store, declared = network.store, network.declared
    propagators = network.propagators
    linear = [(i, p.owner, p.acts) for i, p in enumerate(propagators) if isinstance(p.acts, Linear)]
    sums = Sums(len(declared))
    # The propagator of each sum.
    places: list[int] = []
    for place, owner, acts in linear:
        places.append(place)
        sums.add(owner, acts.polynomial)

    def post(operator: str, total: Polynomial, owner: int, name: str = "") -> None:
        places.append(len(propagators))
        sums.add(owner, total)
        network.post(Linear(operator, total, store), poly.scope(total), owner, name)

    for _, owner, acts in linear:
        if network.brackets.keys().isdisjoint(poly.scope(acts.polynomial)):
            continue
        # x * (y + z) shows bounds of x best; x * y + x * z, with it, a product to share.
        flat = spread(acts.polynomial, network.brackets)
        if any(m not in acts.polynomial and sums.elsewhere(owner, m) for m in flat):
            post(acts.operator, flat, owner)
    changed: dict[int, None] = {}
    for product in sums.shared():
        hidden = network.hide(*Term(1, product, store).bounds(store))
        changed |= sums.replace(product, hidden)
        powers = (f"{declared[x]}" if e == 1 else f"{declared[x]}**{e}" for x, e in product)
        name = f"the product {' * '.join(powers)}"
        # Smaller products, which follow, may be replaced in this one.
        post("==", {product: 1, ((hidden, 1),): -1}, -1, name)
    for number in changed:
        old = propagators[places[number]]
        total = sums.polynomial(number)
        assert isinstance(old.acts, Linear)
        acts = Linear(old.acts.operator, total, store)
        scope = tuple(poly.scope(total))
        # A bound of the product alone does not yet say that the constraint holds for its factors.
        propagators[places[number]] = replace(
            old, acts=acts, scope=scope, settles=acts.monotone, whole=False
        )


@dataclass(eq=False, slots=True)
class _Term:
    sum: int
    coefficient: int
    factors: Factors


class Sums:
    """Sums of products, to find and replace what several constraints share.

    Args:
        declared: how many variables, the first ones, are declared; products of them are shared.
    """

    def __init__(self, declared: int) -> None:
        self.declared = declared
        self.owners: list[int] = []
        self.terms: list[list[_Term]] = []
        self._holding: dict[tuple[int, int], dict[_Term, None]] = {}

    def add(self, owner: int, polynomial: Polynomial) -> None:
        """Take in another sum, of the constraint `owner`."""
        terms = [_Term(len(self.terms), c, frozenset(m)) for m, c in polynomial.items()]
        self.terms.append(terms)
        self.owners.append(owner)
        for term in terms:
            for factor in term.factors:
                self._holding.setdefault(factor, {})[term] = None

    def _hosts(self, product: Monomial) -> list[_Term]:
        """The terms that have, or had, all these factors."""
        first, *others = (self._holding.get(factor, {}) for factor in product)
        return [term for term in first if all(term in other for other in others)]

    def elsewhere(self, owner: int, monomial: Monomial) -> bool:
        """Whether it is a product of declared variables that another constraint has too."""
        return (
            len(monomial) > 1
            and all(x < self.declared for x, _ in monomial)
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

    def replace(self, product: Monomial, variable: int) -> dict[int, None]:
        """Put a variable in the place of a product; the numbers of the sums that had it."""
        factors = frozenset(product)
        changed: dict[int, None] = {}
        for term in self._hosts(product):
            if factors <= term.factors:
                term.factors = term.factors - factors | {(variable, 1)}
                changed[term.sum] = None
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
