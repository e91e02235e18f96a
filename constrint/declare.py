"""From what a caller writes to a domain."""

from __future__ import annotations

from collections.abc import Iterable

from .domain import LARGEST_MAGNITUDE, Domain
from .errors import ModelError
from .expression import integer

# Words of the text form, which no variable may take.
RESERVED = frozenset(("and", "or", "not", "in", "true", "false"))


def domain_of(where: str, name: str, low: Iterable[int] | int, high: int | None) -> Domain:
    """The domain that `Model.int` was asked for."""
    if high is None and isinstance(low, Iterable):
        values = [integer(value, where) for value in low]
        if not values:
            raise ModelError(
                where, "an empty domain", "at least one value", f'm.int("{name}", [8, 16])'
            )
        domain = Domain.of(values)
    else:
        if high is None:
            raise ModelError(
                where, "a lower bound alone", "two bounds or a list", f'm.int("{name}", {low}, 64)'
            )
        first, last = integer(low, where), integer(high, where)
        if first > last:
            raise ModelError(
                where,
                f"an empty domain, {first}..{last}",
                "a lower bound that is not above the upper one",
                f'm.int("{name}", {last}, {first})',
            )
        domain = Domain(first, last)
    if max(abs(domain.low), abs(domain.high)) > LARGEST_MAGNITUDE:
        raise ModelError(
            where,
            f"the domain {domain}",
            "values from -2**62 to 2**62",
            f'm.int("{name}", 1, 2**62)',
        )
    return domain
