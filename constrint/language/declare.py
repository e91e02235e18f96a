"""Checks of declarations: domains, and names of variables and constraints."""

from __future__ import annotations

from collections.abc import Container, Iterable

from ..domain import LARGEST_MAGNITUDE, Domain
from ..errors import ModelError
from .constraint import Constraint
from .expression import integer

# Words of the text form, which no variable may have as its name.
RESERVED = frozenset(("and", "or", "not", "in", "true", "false"))


def domain_of(where: str, name: str, low: Iterable[int] | int, high: int | None) -> Domain:
    """The domain that the arguments of `Model.int` describe."""
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


def check_name(where: str, name: str, taken: Container[str]) -> None:
    """Refuse a name that a new variable cannot have."""
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
        raise ModelError(where, f"the name {name!r}", "a Python identifier", 'm.int("tile", 1, 32)')
    if name in taken:
        found = f"a second variable {name!r}"
        raise ModelError(where, found, "a new name", f'm["{name}"] for the first')


def constraint_name(constraint: Constraint, name: str | None, taken: Container[str]) -> str:
    """The name of a new constraint: the given name, or its text, with a number if it is taken."""
    if name is None:
        text, again = str(constraint), 1
        name = text
        while name in taken:
            again += 1
            name = f"{text} ({again})"
    elif not isinstance(name, str) or not name.strip() or "\n" in name:
        where = f"m.require({constraint}, ...)"
        raise ModelError(where, f"the name {name!r}", "words on one line", '"threads a block"')
    elif name in taken:
        raise ModelError(
            f"m.require({constraint}, {name!r})",
            f"a second constraint named {name!r}",
            "a name of its own, by which explanations can tell them apart",
            f'"{name} (2)", or no name',
        )
    return name
