"""A ConstrINT model, translated for CP-SAT."""

from __future__ import annotations

from collections.abc import Callable

from ortools.sat.python import cp_model
from rnnc.constrint import Constraint, Expression, Model, Variable
from rnnc.constrint.language.constraint import (
    Both,
    Comparison,
    Either,
    Implication,
    Member,
)
from rnnc.constrint.language.expression import Binary, Constant, Negation


class CpSat:
    """A model translated for CP-SAT: a hidden variable for every nonlinear node."""

    def __init__(self, model: Model) -> None:
        self.model = cp_model.CpModel()
        self.variables = {
            v.name: self.model.new_int_var_from_domain(_cp_domain(v), v.name)
            for v in model.variables
        }
        for constraint in model.constraints.values():
            self._post(constraint, None)

    def _new(self, low: int, high: int) -> cp_model.IntVar:
        return self.model.new_int_var(max(low, -(2**62)), min(high, 2**62), "")

    def _value(self, node: Expression) -> cp_model.LinearExprT:
        match node:
            case Constant(value=value):
                return value
            case Variable(name=name):
                return self.variables[name]
            case Negation(operand=operand):
                return -self._value(operand)
            case Binary(operator=word, left=left, right=right):
                a = self._value(left)
                if word == "**" and isinstance(right, Constant):
                    out = self._new(node.low, node.high)
                    self.model.add_multiplication_equality(out, [a] * right.value)
                    return out
                b = self._value(right)
                if word in "+-":
                    return a + b if word == "+" else a - b
                if word == "*" and (isinstance(a, int) or isinstance(b, int)):
                    return a * b
                out = self._new(node.low, node.high)
                # CP-SAT's division rounds to 0, as Python's does if no operand is negative.
                assert word == "*" or (left.low >= 0 and right.low > 0), node
                add = {
                    "*": lambda: self.model.add_multiplication_equality(out, [a, b]),
                    "//": lambda: self.model.add_division_equality(out, a, b),
                    "%": lambda: self.model.add_modulo_equality(out, a, b),
                }
                add[word]()
                return out
        raise AssertionError(node)

    def _post(self, constraint: Constraint, when: cp_model.IntVar | None) -> None:
        match constraint:
            case Both(left=left, right=right):
                self._post(left, when)
                self._post(right, when)
                return
            case Either() | Implication():
                left = ~constraint.left if isinstance(constraint, Implication) else constraint.left
                flags = [self.model.new_bool_var(""), self.model.new_bool_var("")]
                self._post(left, flags[0])
                self._post(constraint.right, flags[1])
                posted = self.model.add_bool_or(flags)
            case Member(expression=inner, values=values, inside=inside):
                domain = cp_model.Domain.from_values(list(values))
                domain = domain if inside else domain.complement()
                posted = self.model.add_linear_expression_in_domain(self._value(inner), domain)
            case Comparison(operator=word):
                a, b = self._value(constraint.left), self._value(constraint.right)
                if isinstance(a, int) and isinstance(b, int):
                    a = self.model.new_constant(a)
                compare: dict[str, Callable[[], object]] = {
                    "==": lambda: a == b,
                    "!=": lambda: a != b,
                    "<=": lambda: a <= b,
                    ">=": lambda: a >= b,
                    "<": lambda: a < b,
                    ">": lambda: a > b,
                }
                posted = self.model.add(compare[word]())
            case _:
                raise AssertionError(constraint)
        if when is not None:
            posted.only_enforce_if(when)

    def solve(self, seconds: float) -> tuple[str, int]:
        """The status, and the number of solutions: 0 or 1."""
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 2
        status = solver.solve(self.model)
        return solver.status_name(status), int(status in (cp_model.OPTIMAL, cp_model.FEASIBLE))

    def all_solutions(self, seconds: float) -> tuple[str, set[tuple[int, ...]]]:
        """The status and the solutions: all of them if the status is OPTIMAL."""
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        # CP-SAT enumerates with one worker only.
        solver.parameters.num_workers = 1
        solver.parameters.enumerate_all_solutions = True
        found = _Distinct(list(self.variables.values()))
        status = solver.solve(self.model, found)
        return solver.status_name(status), found.seen


class _Distinct(cp_model.CpSolverSolutionCallback):
    def __init__(self, chosen: list[cp_model.IntVar]) -> None:
        super().__init__()
        self.chosen = chosen
        self.seen: set[tuple[int, ...]] = set()

    def on_solution_callback(self) -> None:
        self.seen.add(tuple(self.value(v) for v in self.chosen))


def _cp_domain(v: Variable) -> cp_model.Domain:
    if v.domain.values is None:
        return cp_model.Domain(v.low, v.high)
    return cp_model.Domain.from_values(list(v.domain.values))
