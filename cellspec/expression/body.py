"""`Body`: what a loop runs in each pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Node


@dataclass(frozen=True)
class Body:
    """The body of a loop, closed: it reads nothing but symbols of its own (`loops.py`).

    Attributes:
        passes: how often it runs.
        roots: the values at the end of a pass.
    """

    passes: int
    roots: tuple[Node, ...]
