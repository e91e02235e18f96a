"""Polynomials over integer variables, in normal form."""

from __future__ import annotations

from collections.abc import Mapping

Monomial = tuple[tuple[int, int], ...]
Polynomial = dict[Monomial, int]

ONE: Monomial = ()


def constant(value: int) -> Polynomial:
    """The polynomial of a number."""
    return {ONE: value} if value else {}


def variable(x: int) -> Polynomial:
    """The polynomial of a variable."""
    return {((x, 1),): 1}


def plus(a: Mapping[Monomial, int], b: Mapping[Monomial, int], sign: int = 1) -> Polynomial:
    """The sum of two polynomials, or their difference if `sign` is -1."""
    out = dict(a)
    for monomial, coefficient in b.items():
        total = out.get(monomial, 0) + sign * coefficient
        if total:
            out[monomial] = total
        else:
            out.pop(monomial, None)
    return out


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    """The product of two polynomials."""
    for factor, other in ((a, b), (b, a)):
        if len(factor) == 1 and ONE in factor:  # a number
            return {monomial: c * factor[ONE] for monomial, c in other.items()}
    out: Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            powers = dict(m)
            for x, e in n:
                powers[x] = powers.get(x, 0) + e
            out = plus(out, {tuple(sorted(powers.items())): c * d})
    return out


def scope(polynomial: Polynomial) -> dict[int, None]:
    """The variables of a polynomial, each once, in order of appearance."""
    return {x: None for monomial in polynomial for x, _ in monomial}
