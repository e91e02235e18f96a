"""Errors in a cell's definition."""

from __future__ import annotations

from ..errors import RnncError

#: The most letters of a part of a message: a name or an expression may have any number.
_LONGEST = 1000


class CellError(RnncError):
    """A mistake in a cell: says where it is, what was found and what to write.

    Not a `ValueError`, because pydantic would turn that into an error of its own.

    Example:
        >>> import rnnc
        >>> try:
        ...     rnnc.gate(bias="yes")
        ... except rnnc.CellError as error:
        ...     print(error.found, "->", error.write)
        gate(bias='yes') -> gate(bias=False)
    """

    def __init__(self, found: str, wanted: str, write: str, where: str = "") -> None:
        super().__init__(*map(_shortened, (where, found, wanted, write)))

    def at(self, where: str) -> CellError:
        """This error with its place filled in; an error that has a place is returned as it is."""
        return self if self.where else CellError(self.found, self.wanted, self.write, where)

    def __str__(self) -> str:
        return f"{self.where or 'cell'}\n{self.details}"


def _shortened(part: str) -> str:
    if len(part) <= _LONGEST:
        return part
    return f"{part[: _LONGEST // 2]} … {part[-_LONGEST // 4 :]}"


def kind_of(value: object) -> str:
    """A value's type with its article: `an int`, `a Tensor`, `None`.

    Args:
        value: what a caller passed.
    """
    name = type(value).__name__
    vowel = name[0] in "aeioAEIO" or name.startswith(("nd", "LSTM", "RNN"))  # an ndarray
    return "None" if value is None else f"{'an' if vowel else 'a'} {name}"
