"""`Declarations`: the variables of a model and its named constraints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, overload

from ..errors import ModelError, unknown
from .constraint import Constraint, as_constraint, variables
from .declare import check_name, constraint_name, domain_of
from .variable import Variable

# Inside the class `int` is the method that declares a variable.
Integer: TypeAlias = int


class Declarations:
    """Variables and named constraints, in the order of their declaration."""

    def __init__(self) -> None:
        self._variables: dict[str, Variable] = {}
        self._constraints: dict[str, Constraint] = {}

    @overload
    def int(self, name: str, low: Iterable[Integer], high: None = None) -> Variable: ...

    @overload
    def int(self, name: str, low: Integer, high: Integer) -> Variable: ...

    def int(
        self, name: str, low: Iterable[Integer] | Integer, high: Integer | None = None
    ) -> Variable:
        """Declare a variable.

        Args:
            name: a Python identifier that no variable of this model has.
            low: the smallest value, or a list of all values in the order in which they are tried.
            high: the largest value, at most 2^62; a large range is never enumerated.

        Raises:
            ModelError: the name is taken or not an identifier, or the domain is empty, too large
                or not of integers.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> m.int("warps", 1, 32), m.int("tile", [32, 16, 8])
            (warps, tile)
        """
        where = f"m.int({name!r}, ...)"
        check_name(where, name, self._variables)
        variable = Variable(name, len(self._variables), domain_of(where, name, low, high), self)
        self._variables[name] = variable
        return variable

    def require(self, constraint: Constraint | bool, name: str | None = None) -> None:
        """Add a constraint.

        Args:
            constraint: the constraint.
            name: its name in explanations; by default its text.

        Raises:
            ModelError: it is not a constraint, uses another model's variable, or its name is taken.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> tile = m.int("tile", [8, 16, 32])
            >>> m.require(64 % tile == 0, "tiles fill the head")
        """
        constraint = as_constraint(constraint, "m.require(...)")
        for variable in variables(constraint):
            if variable.owner is not self:  # the text of a constraint takes longer than the rest
                self._check_owner(variable, f"m.require({constraint})")
        self._constraints[constraint_name(constraint, name, self._constraints)] = constraint

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables in the order of their declaration."""
        return tuple(self._variables.values())

    @property
    def constraints(self) -> dict[str, Constraint]:
        """The constraints and their names, in the order of their declaration."""
        return dict(self._constraints)

    def __getitem__(self, name: str) -> Variable:
        """The variable with this name.

        Raises:
            UnknownVariableError: there is none.
        """
        try:
            return self._variables[name]
        except KeyError:
            raise unknown(f"m[{name!r}]", name, self._variables) from None

    def _check_owner(self, variable: Variable, where: str) -> None:
        if variable.owner is not self:
            raise ModelError(
                where,
                f"{variable}, a variable of another model",
                "variables of this one",
                f'm.int("{variable}", {variable.low}, {variable.high}) here',
            )
