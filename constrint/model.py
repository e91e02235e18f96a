"""The model: variables, constraints, and the questions that can be asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, cast, overload

from .errors import ModelError
from .language.constraint import Constraint, as_constraint, variables
from .language.declare import check_name, constraint_name, domain_of
from .language.expression import Preference, Variable, integer
from .problem import Key, Problem
from .solution import Solution, near, unknown
from .solver.budget import Budget
from .solver.explain import Explanation
from .solver.network import Named
from .solver.propagation import Trace
from .solver.relax import Relaxation
from .solver.search import Order

# Inside the class `int` is the method that declares a variable.
Integer: TypeAlias = int


class Model:
    """Integer variables tied by constraints, solved exactly.

    Propagation narrows the domains to a fixed point (bounds, divisors, and arc consistency where
    few values are left), then a search tries values in the declared order. It is deterministic:
    the same model gives the same solutions in the same order.

    Source: the algorithm has the task of ConstrINT in FlashRNN (Pöppel, Beck, Hochreiter, ICLR
    2025): Algorithm 3 ("resolution") and Algorithm 4 ("global arc reduction").

    Example:
        >>> from rnnc.constrint import Model
        >>> m = Model()
        >>> warps = m.int("warps", 1, 32)
        >>> tile = m.int("tile", [8, 16, 32])
        >>> split = m.int("split", 1, 768)
        >>> m.require(768 % (split * tile) == 0, "head dim divides into splits of tiles")
        >>> m.require(warps * tile * 4 <= 1024, "threads a block")
        >>> print(m.solve(prefer=[warps.largest, split.smallest]))
        warps=32 tile=8 split=1
        >>> m.count()
        608
    """

    def __init__(self) -> None:
        self._variables: dict[str, Variable] = {}
        self._named: dict[str, Named] = {}

    @overload
    def int(self, name: str, low: Iterable[Integer], high: None = None) -> Variable: ...

    @overload
    def int(self, name: str, low: Integer, high: Integer) -> Variable: ...

    def int(
        self, name: str, low: Iterable[Integer] | Integer, high: Integer | None = None
    ) -> Variable:
        """Declare a variable.

        Args:
            name: a Python identifier, new in this model.
            low: the smallest value, or all values in the order in which they are tried.
            high: the largest value, included; up to 2^62, and never enumerated when large.

        Raises:
            ModelError: the name is taken or no identifier, or the domain is empty, too large or
                not of integers.

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
            constraint: what must hold.
            name: what it is called in explanations; its own text if left out.

        Raises:
            ModelError: it is no constraint, has a variable of another model, or its name is taken.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> tile = m.int("tile", [8, 16, 32])
            >>> m.require(64 % tile == 0, "tiles fill the head")
        """
        constraint = as_constraint(constraint, "m.require(...)")
        for variable in variables(constraint):
            self._own(variable, f"m.require({constraint})")
        name = constraint_name(constraint, name, self._named)
        self._named[name] = Named(name, constraint)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables in the order of their declaration."""
        return tuple(self._variables.values())

    @property
    def constraints(self) -> dict[str, Constraint]:
        """The constraints by name, in the order of their declaration."""
        return {name: item.constraint for name, item in self._named.items()}

    def __getitem__(self, name: str) -> Variable:
        """The variable of this name.

        Raises:
            UnknownVariableError: there is none.
        """
        try:
            return self._variables[name]
        except KeyError:
            raise unknown(f"m[{name!r}]", name, self._variables) from None

    def solve(
        self,
        prefer: Sequence[Preference] = (),
        *,
        seconds: float | None = None,
        nodes: Integer | None = None,
        trace: bool | Trace = False,
    ) -> Solution:
        """The first solution in the order asked.

        Args:
            prefer: variables to decide first, each from its `largest` or `smallest` value; the
                others follow in declared order, in the declared order of their values.
            seconds: a limit on time.
            nodes: a limit on decisions.
            trace: True to print each step, or a function that takes its line.

        Raises:
            Unsatisfiable: there is no solution; the error says why.
            LimitReached: a limit ended the search undecided.
            ModelError: a preference is not one, or is of another model.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a, b = m.int("a", 1, 9), m.int("b", 1, 9)
            >>> m.require(a * b == 12)
            >>> print(m.solve(), "|", m.solve(prefer=[b.smallest]))
            a=2 b=6 | a=6 b=2
        """
        return self._asked().first(self._orders(prefer), Budget(seconds, nodes), _tracer(trace))

    def solutions(
        self,
        prefer: Sequence[Preference] = (),
        *,
        seconds: float | None = None,
        nodes: Integer | None = None,
    ) -> Iterator[Solution]:
        """All solutions in the order asked, one at a time.

        The arguments and errors are those of `solve`, except that no solution is no error.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a, b = m.int("a", 1, 9), m.int("b", [4, 2, 3])
            >>> m.require(a * b == 12)
            >>> [str(s) for s in m.solutions()]
            ['a=3 b=4', 'a=4 b=3', 'a=6 b=2']
        """
        return self._asked().solutions(self._orders(prefer), Budget(seconds, nodes))

    def best(
        self,
        key: Callable[[Solution], Key],
        *,
        seconds: float | None = None,
        nodes: Integer | None = None,
    ) -> Solution:
        """The solution with the smallest key, over all solutions; the first of equals.

        Args:
            key: a cost.
            seconds: a limit on time.
            nodes: a limit on decisions.

        Raises:
            Unsatisfiable: there is no solution.
            LimitReached: a limit ended the search; its `best` is the best seen.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a, b = m.int("a", 1, 9), m.int("b", 1, 9)
            >>> m.require(a * b == 12)
            >>> print(m.best(key=lambda s: s.a + s.b))
            a=3 b=4
        """
        return self._asked().best(key, self._orders(()), Budget(seconds, nodes))

    def count(self, *, seconds: float | None = None, nodes: Integer | None = None) -> Integer:
        """How many solutions there are; variables that nothing ties together are multiplied.

        Raises:
            LimitReached: a limit ended the search; its `found` were counted by then.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a, b = m.int("a", 1, 2**62), m.int("b", 1, 9)
            >>> m.require(b * b <= 16)
            >>> m.count() == 4 * 2**62
            True
        """
        return self._asked().count(Budget(seconds, nodes))

    def explain(self, *, seconds: float | None = None, nodes: Integer | None = None) -> Explanation:
        """Why the model has no solution: constraints that clash, none of them to spare.

        Raises:
            LimitReached: a limit came before it was known whether there is a solution. One that
                comes later leaves a clashing set that is not the smallest, and says so.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a, b = m.int("a", 1, 9), m.int("b", 1, 9)
            >>> m.require(a * b == 12, "area")
            >>> m.require(a != b, "not square")
            >>> m.require(a + b <= 6, "edge")
            >>> print(m.explain())
            no solution: these 2 constraints clash; drop any one and a solution exists
              - area: a * b == 12
              - edge: a + b <= 6
              with a in 1..9, b in 1..9
        """
        return self._asked().explain(Budget(seconds, nodes))

    def why(
        self,
        variable: Variable,
        value: Integer,
        *,
        seconds: float | None = None,
        nodes: Integer | None = None,
    ) -> Explanation:
        """What rules a value of a variable out, or a solution that has it.

        Raises:
            ModelError: the variable is of another model, or the value no integer.
            LimitReached: a limit ended the search undecided.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> tile = m.int("tile", [8, 16, 32])
            >>> m.require(48 % tile == 0, "tiles fill the head")
            >>> print(m.why(tile, 32))
            tile cannot be 32: this constraint cannot hold
              - tiles fill the head: 48 % tile == 0
              with tile in [8, 16, 32]
        """
        where = f"m.why({variable}, {value!r})"
        if not isinstance(variable, Variable):
            raise ModelError(where, f"{variable!r}", "a variable", 'm.why(m["tile"], 32)')
        self._own(variable, where)
        value = integer(value, where)
        return self._asked().why(variable, value, Budget(seconds, nodes))

    def relax(
        self, name: str, *, seconds: float | None = None, nodes: Integer | None = None
    ) -> Relaxation:
        """Whether, and how far, moving the bound of one constraint gives a solution.

        For `<=`, `<`, `>=` and `>` it is the shortest move of the right side, for `==` the nearest
        value each way.

        Raises:
            ModelError: there is no constraint of this name.
            LimitReached: a limit ended the search undecided.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> dim, tile = m.int("dim", 1, 4096), m.int("tile", [16, 32])
            >>> m.require(dim == 700, "head dim")
            >>> m.require(dim % tile == 0, "whole tiles")
            >>> print(m.relax("head dim"))
            head dim: dim == 700
              has a solution at `dim == 704` (up by 4), for example dim=704 tile=16
              has a solution at `dim == 688` (down by 12), for example dim=688 tile=16
        """
        if name not in self._named:
            where, found = f"m.relax({name!r})", "no constraint of this name"
            raise ModelError(where, found, "one of the model's", near(name, self._named))
        return self._asked().relax(self._named[name], Budget(seconds, nodes))

    @staticmethod
    def parse(text: str) -> Model:
        """Read a model from text; `str(model)` writes one.

        A line is a declaration (`name in 1..32`, `name in [8, 16]`) or a constraint, with an
        optional quoted name and a colon before it. `;` ends a statement as a line end does, `#`
        starts a comment, and a line goes on inside brackets.

        Raises:
            TextError: with the line, and a caret below the column.
            ModelError: what the text says is no valid model.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model.parse('''
            ... warps in 1..32;  tile in [8, 16, 32]   # two variables
            ... "threads a block": warps * tile * 4 <= 1024;
            ... ''')
            >>> print(m)
            warps in 1..32;
            tile in [8, 16, 32];
            "threads a block": warps * tile * 4 <= 1024;
        """
        from .language.text import parse

        return parse(text)

    def __str__(self) -> str:
        from .language.text import write

        return write(self)

    def _own(self, variable: Variable, where: str) -> None:
        if variable.owner is not self:
            raise ModelError(
                where,
                f"{variable}, a variable of another model",
                "variables of this one",
                f'm.int("{variable}", {variable.low}, {variable.high}) here',
            )

    def _orders(self, prefer: Sequence[Preference]) -> list[Order]:
        wished: dict[Integer, Order] = {}
        for wish in prefer:
            if not isinstance(wish, Preference):
                raise ModelError(
                    "prefer=[...]",
                    f"{wish!r}",
                    "x.largest or x.smallest",
                    f"prefer=[{wish}.largest]",
                )
            self._own(wish.variable, f"prefer=[{wish}]")
            if wish.variable.index in wished:
                raise ModelError(
                    "prefer=[...]",
                    f"{wish.variable} twice",
                    "each variable once",
                    f"prefer=[{wish}]",
                )
            wished[wish.variable.index] = Order(wish.variable.index, wish.largest)
        rest = (v for v in self.variables if v.index not in wished)
        return [*wished.values(), *(Order(v.index, declared=v.domain.order) for v in rest)]

    def _asked(self) -> Problem:
        return Problem(self.variables, tuple(self._named.values()))


def _tracer(trace: bool | Trace) -> Trace | None:
    if callable(trace):
        return trace
    return cast(Trace, print) if trace else None
