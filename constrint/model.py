"""`Model`: variables, constraints, and questions about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from .errors import ModelError, near
from .language.declarations import Declarations
from .language.expression import integer
from .language.text import read, write
from .language.variable import Preference, Variable
from .solver.budget import Budget
from .solver.explanation import Explanation
from .solver.network import Named
from .solver.problem import Key, Problem
from .solver.propagation import Trace
from .solver.relax import Relaxation
from .solver.search import Order
from .solver.solution import Solution


class Model(Declarations):
    """A model: integer variables tied by constraints, solved exactly.

    Propagation narrows the domains to a fixed point, by bounds and divisors, and by arc consistency
    if few values are left. Then a search tries values in the declared order. The same model always
    gives the same solutions in the same order.

    Source: ConstrINT in FlashRNN (Pöppel, Beck, Hochreiter, ICLR 2025) has the same task, with
    Algorithm 3 ("resolution") and Algorithm 4 ("global arc reduction").

    Example:
        >>> from rnnc.constrint import Model
        >>> m = Model()
        >>> warps = m.int("warps", 1, 32)
        >>> tile = m.int("tile", [8, 16, 32])
        >>> split = m.int("split", 1, 768)
        >>> m.require(768 % (split * tile) == 0, "head dim divides into splits of tiles")
        >>> m.require(warps * tile * 4 <= 1024, "threads per block")
        >>> print(m.solve(prefer=[warps.largest, split.smallest]))
        warps=32 tile=8 split=1
        >>> m.count()
        608
    """

    def solve(
        self,
        prefer: Sequence[Preference] = (),
        *,
        seconds: float | None = None,
        nodes: int | None = None,
        trace: bool | Trace = False,
    ) -> Solution:
        """The first solution in the requested order.

        Args:
            prefer: variables to decide first, each from its `largest` or `smallest` value. The
                other variables follow in declared order, with their values in declared order.
            seconds: a limit on time.
            nodes: a limit on decisions.
            trace: True to print a line per step, or a function that is called with each line.

        Raises:
            Unsatisfiable: there is no solution; the error explains why.
            LimitReached: a limit ended the search before a decision.
            ModelError: `prefer` has another value than preferences, or one of another model.

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
        nodes: int | None = None,
    ) -> Iterator[Solution]:
        """All solutions in the requested order, one at a time.

        The arguments and errors are those of `solve`, but a model without solutions is no error.

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
        nodes: int | None = None,
    ) -> Solution:
        """The first solution with the smallest key.

        Args:
            key: the cost of a solution.
            seconds: a limit on time.
            nodes: a limit on decisions.

        Raises:
            Unsatisfiable: there is no solution.
            LimitReached: a limit ended the search; `best` of the error is the best solution seen.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a, b = m.int("a", 1, 9), m.int("b", 1, 9)
            >>> m.require(a * b == 12)
            >>> print(m.best(key=lambda s: s.a + s.b))
            a=3 b=4
        """
        return self._asked().best(key, self._orders(()), Budget(seconds, nodes))

    def count(self, *, seconds: float | None = None, nodes: int | None = None) -> int:
        """The number of solutions, as a product over independent groups of variables.

        Raises:
            LimitReached: a limit ended the search; `found` of the error is the count by then.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model()
            >>> a, b = m.int("a", 1, 2**62), m.int("b", 1, 9)
            >>> m.require(b * b <= 16)
            >>> m.count() == 4 * 2**62
            True
        """
        return self._asked().count(Budget(seconds, nodes))

    def explain(self, *, seconds: float | None = None, nodes: int | None = None) -> Explanation:
        """Why the model has no solution: a smallest set of constraints that clash.

        Raises:
            LimitReached: a limit ended the search before it was known whether there is a
                solution. After a later limit, the explanation says that the set may be smaller.

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
        value: int,
        *,
        seconds: float | None = None,
        nodes: int | None = None,
    ) -> Explanation:
        """The constraints that rule out a value of a variable, or a solution with this value.

        Raises:
            ModelError: the variable is of another model, or the value is not an integer.
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
        self._check_owner(variable, where)
        value = integer(value, where)
        return self._asked().why(variable, value, Budget(seconds, nodes))

    def relax(
        self, name: str, *, seconds: float | None = None, nodes: int | None = None
    ) -> Relaxation:
        """Return how far the bound of one constraint must move before there is a solution.

        For `<=`, `<`, `>=` and `>` the answer is the shortest move of the right side. For `==` it
        is the nearest value in each direction.

        Raises:
            ModelError: there is no constraint with this name.
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
        problem = self._asked()
        target = next((item for item in problem.named if item.name == name), None)
        if target is None:
            where, found = f"m.relax({name!r})", "no constraint of this name"
            raise ModelError(where, found, "one of the model's", near(name, self.constraints))
        return problem.relax(target, Budget(seconds, nodes))

    @staticmethod
    def parse(text: str) -> Model:
        """Read a model from text; `str(model)` writes one.

        A line is a declaration (`name in 1..32`, `name in [8, 16]`) or a constraint, which may
        have a quoted name and a colon before it. `;` or the end of the line ends a statement. `#`
        starts a comment. A statement may continue on the next line inside brackets.

        Raises:
            TextError: the text has a mistake; the message points at its line and column.
            ModelError: the text describes no valid model.

        Example:
            >>> from rnnc.constrint import Model
            >>> m = Model.parse('''
            ... warps in 1..32;  tile in [8, 16, 32]   # two variables
            ... "threads per block": warps * tile * 4 <= 1024;
            ... ''')
            >>> print(m)
            warps in 1..32;
            tile in [8, 16, 32];
            "threads per block": warps * tile * 4 <= 1024;
        """
        model = Model()
        read(text, model)
        return model

    def __str__(self) -> str:
        return write(self)

    def _orders(self, prefer: Sequence[Preference]) -> list[Order]:
        wished: dict[int, Order] = {}
        for wish in prefer:
            if not isinstance(wish, Preference):
                raise ModelError(
                    "prefer=[...]",
                    f"{wish!r}",
                    "x.largest or x.smallest",
                    f"prefer=[{wish}.largest]",
                )
            self._check_owner(wish.variable, f"prefer=[{wish}]")
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
        named = (Named(name, constraint) for name, constraint in self.constraints.items())
        return Problem(self.variables, tuple(named))


def _tracer(trace: bool | Trace) -> Trace | None:
    if callable(trace):
        return trace
    return cast(Trace, print) if trace else None
