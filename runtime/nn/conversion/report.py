"""Report of `rnnc.convert`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .faster import DECIDED_ON, TABLE


@dataclass(frozen=True)
class Report:
    """Changes that `rnnc.convert` made to the recurrent modules of a model. Its `str` is a table.

    Attributes:
        replaced: the old and the new class of each module that has a new one, by its name.
        left: why each other module was left, by its name.
    """

    replaced: dict[str, tuple[str, str]]
    left: dict[str, str]

    def __str__(self) -> str:
        rows = [(name or "(model)", *classes) for name, classes in self.replaced.items()]
        blocks = [_table(("module", "was", "is"), rows)] if rows else []
        if self.left:
            left = [(name or "(model)", why) for name, why in self.left.items()]
            blocks.append(_table(("left", "why"), left))
        if any("faster" in why for why in self.left.values()):
            blocks.append(
                f"Decided by {DECIDED_ON}, as measured: {TABLE}. force=True converts these too."
            )
        return "\n\n".join(blocks) or "no recurrent modules of torch"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)
