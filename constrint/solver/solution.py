"""`Solution`: a value for each variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..errors import ModelError, unknown
from ..language.variable import Variable


class Solution(Mapping[str, int]):
    """A frozen mapping from the name of each variable to its value, with attribute access.

    Raises:
        UnknownVariableError: the model has no variable with the requested name.

    Example:
        >>> from rnnc.constrint import Model
        >>> m = Model()
        >>> a, b = m.int("a", 1, 9), m.int("b", 1, 9)
        >>> m.require(a * b == 35)
        >>> s = m.solve()
        >>> print(s)
        a=5 b=7
        >>> s.a, s["b"], s[b], dict(s)
        (5, 7, 7, {'a': 5, 'b': 7})
    """

    __slots__ = ("_values",)

    _values: dict[str, int]

    def __init__(self, values: Mapping[str, int]) -> None:
        object.__setattr__(self, "_values", dict(values))

    def __getitem__(self, key: str | Variable) -> int:
        name = key.name if isinstance(key, Variable) else key
        try:
            return self._values[name]
        except (KeyError, TypeError):
            raise unknown("solution", name, self._values) from None

    def __getattr__(self, name: str) -> int:
        # Python asks for special methods this way, before a copy has its values.
        if name.startswith("__") or name == "_values":
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise ModelError(
            f"solution.{name} = {value}",
            "a solution being changed",
            "a new constraint",
            f"m.require({name} == {value}) and solve again",
        )

    def __reduce__(self) -> tuple[type[Solution], tuple[dict[str, int]]]:
        return Solution, (self._values,)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._values.items())

    def __repr__(self) -> str:
        return f"Solution({self})"
