"""What is wrong with a cell, said to the person who wrote it."""

from __future__ import annotations


class RnncError(Exception):
    """The base of every error that rnnc raises on purpose."""


class CellError(RnncError):
    """The author of a cell is at fault: the text says where, what was found and what to write.

    Not a `ValueError`: pydantic would swallow those into a report of its own.

    Example:
        >>> import rnnc
        >>> try:
        ...     rnnc.gate(bias="yes")
        ... except rnnc.CellError as error:
        ...     print(error.found, "->", error.write)
        gate(bias='yes') -> gate(bias=False)
    """

    def __init__(self, found: str, wanted: str, write: str, where: str = "") -> None:
        super().__init__(found, wanted, write, where)
        self.found = found
        self.wanted = wanted
        self.write = write
        self.where = where

    def at(self, where: str) -> CellError:
        """The same error with its place filled in, unless it is known already."""
        return self if self.where else CellError(self.found, self.wanted, self.write, where)

    def __str__(self) -> str:
        return (
            f"{self.where or 'cell'}\n"
            f"  found:  {self.found}\n"
            f"  wanted: {self.wanted}\n"
            f"  write:  {self.write}"
        )


def kind_of(value: object) -> str:
    """What a value is, with its article: `an int`, `a Tensor`, `None`.

    Args:
        value: what a caller passed.
    """
    name = type(value).__name__
    vowel = name[0] in "aeioAEIO" or name.startswith("nd")  # an ndarray
    return "None" if value is None else f"{'an' if vowel else 'a'} {name}"
