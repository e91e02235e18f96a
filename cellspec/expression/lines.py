"""Lines of text that are not too long."""

from __future__ import annotations

from collections.abc import Iterable

#: The most letters of a printed line: a name, " = " and the text of a value.
LONGEST_LINE = 160
#: The letters by which a pass of a loop is indented.
INDENT = 2


def listed(before: str, items: Iterable[str], after: str = "", depth: int = 0) -> list[str]:
    """A list as lines that are not too long; those that continue it are indented further.

    Args:
        before: what the first item follows.
        items: between commas.
        after: what follows the last item.
        depth: of the loops around the lines, which somebody else indents.

    Example:
        >>> from rnnc.cellspec.expression.lines import listed
        >>> [len(line) for line in listed("from ", [f"t{n} = {n}" for n in range(30)], ":")]
        [154, 133]
    """
    width = LONGEST_LINE - INDENT * depth
    lines, line = [], before
    parts = [*(f"{item}, " for item in items)]
    parts[-1] = parts[-1].removesuffix(", ") + after
    for part in parts:
        if len(line) + len(part.rstrip()) > width and line.strip() and line != before:
            lines.append(line.rstrip())
            line = " " * 2 * INDENT
        line += part
    return [*lines, line.rstrip()]


def assigned(names: Iterable[str], values: Iterable[str], depth: int = 0) -> list[str]:
    """An assignment of values to as many names, as lines that are not too long.

    Args:
        names: before the sign, at least one.
        values: after it.
        depth: as of `listed`.

    Example:
        >>> from rnnc.cellspec.expression.lines import assigned
        >>> assigned(["a", "b"], ["b", "a + b"])
        ['a, b = b, a + b']
    """
    *others, last = names
    first, *more = values
    return listed("", [*others, f"{last} = {first}", *more], depth=depth)
