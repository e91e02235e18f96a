"""Random small models: the solver gives the answers of brute force."""

import os
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rnnc.constrint import Constraint, Expression, Model, ModelError, Unsatisfiable, Variable

NAMES = "abcd"
MOST_COMBINATIONS = 1000
# `make test-slow` runs the same tests on twenty-five times as many models.
SLOW = "RNNC_SLOW" in os.environ
pytestmark = [pytest.mark.slow] if SLOW else []

COMPARED = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}
COMPUTED = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}


class Small:
    """A model next to plain Python functions that say when each constraint holds."""

    def __init__(self):
        self.model = Model()
        self.domains = []
        self.checks = {}

    def add(self, values, listed):
        name = NAMES[len(self.domains)]
        if listed:
            self.model.int(name, values)
        else:
            self.model.int(name, min(values), max(values))
            values = list(range(min(values), max(values) + 1))
        self.domains.append(values)

    def require(self, constraint, check):
        name = f"c{len(self.checks)}"
        self.model.require(constraint, name)
        self.checks[name] = check

    def solutions(self, names=None, domains=None):
        """All solutions of the named constraints, in declared order."""
        checks = [self.checks[name] for name in (self.checks if names is None else names)]
        return [
            values
            for values in product(*(domains or self.domains))
            if all(check(values) for check in checks)
        ]

    def mapping(self, values):
        return dict(zip(NAMES, values, strict=False))


@st.composite
def expressions(draw, variables, depth):
    """A pair: the expression, and the same as a function of the values."""
    kind = draw(st.integers(0, 5 if depth else 1))
    if kind == 0:
        value = draw(st.integers(-4, 13))
        return value, lambda values: value
    if kind == 1 or depth == 0:
        place = draw(st.integers(0, len(variables) - 1))
        return variables[place], lambda values: values[place]
    word = draw(st.sampled_from(["+", "-", "*", "*", "*", "//", "%", "%", "**"]))
    left, left_of = draw(expressions(variables, depth - 1))
    right, right_of = draw(expressions(variables, depth - 1))
    compute = COMPUTED[word]
    small = not isinstance(right, Expression) or right.high <= 4
    if word == "**" and not (small and isinstance(left, Expression)):
        compute = COMPUTED["*"]
    plain = not isinstance(left, Expression) and not isinstance(right, Expression)
    try:
        if plain and word in ("//", "%", "**"):
            raise ModelError("", "", "", "")
        made = compute(left, right)
    except ModelError:
        # A divisor that may be 0 or an exponent that may be negative: refused by the model.
        compute = COMPUTED["+"]
        made = compute(left, right)
    return made, lambda values: compute(left_of(values), right_of(values))


@st.composite
def constraints(draw, variables, depth):
    """A pair: the constraint, and the same as a function of the values."""
    kind = draw(st.integers(0, 9))
    if depth and kind >= 7:
        left, left_of = draw(constraints(variables, depth - 1))
        right, right_of = draw(constraints(variables, depth - 1))
        if not isinstance(left, Constraint):
            return left, left_of
        if kind == 7:
            return left & right, lambda values: left_of(values) and right_of(values)
        if kind == 8:
            return left | right, lambda values: left_of(values) or right_of(values)
        return left.implies(right), lambda values: not left_of(values) or right_of(values)
    if kind == 6:
        inner, inner_of = draw(expressions(variables, 1))
        if isinstance(inner, Expression):
            chosen = draw(st.lists(st.integers(-5, 40), min_size=1, max_size=6))
            if draw(st.booleans()):
                return inner.isin(chosen), lambda values: inner_of(values) in chosen
            return ~inner.isin(chosen), lambda values: inner_of(values) not in chosen
    if kind == 5:
        whole, whole_of = draw(expressions(variables, 1))
        part = draw(st.sampled_from(variables))
        place = part.index
        if part.low > 0:
            return whole % part == 0, lambda values: whole_of(values) % values[place] == 0
    word = draw(st.sampled_from(["==", "==", "<=", "<", ">=", ">", "!="]))
    left, left_of = draw(expressions(variables, 2))
    right, right_of = draw(expressions(variables, 2))
    compare = COMPARED[word]
    if kind == 4 and isinstance(left, Expression):
        return ~compare(left, right), lambda values: not compare(left_of(values), right_of(values))
    return compare(left, right), lambda values: compare(left_of(values), right_of(values))


@st.composite
def smalls(draw, most_constraints=4):
    """A small model: up to four variables, some negative, some lists in odd orders."""
    small = Small()
    combinations = 1
    for _ in range(draw(st.integers(1, 4))):
        room = max(1, MOST_COMBINATIONS // combinations)
        if draw(st.booleans()):
            pool = st.sampled_from([-6, -3, -1, 0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 32])
            values = draw(st.lists(pool, min_size=1, max_size=min(6, room), unique=True))
            small.add(values, listed=True)
        else:
            low = draw(st.sampled_from([1, 1, 1, 1, 0, 2, -3]))
            high = low + draw(st.integers(0, min(11, room - 1)))
            small.add([low, high], listed=False)
        combinations *= len(small.domains[-1])
    variables: list[Variable] = list(small.model.variables)
    for _ in range(draw(st.integers(1, most_constraints))):
        small.require(*draw(constraints(variables, 1)))
    return small


def bounded(examples):
    return settings(
        max_examples=25 * examples if SLOW else examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@bounded(200)
@given(small=smalls())
def test_solutions_their_order_and_their_number(small):
    expected = [small.mapping(values) for values in small.solutions()]
    assert [dict(s) for s in small.model.solutions()] == expected
    assert small.model.count() == len(expected)
    assert small.model.explain().satisfiable == bool(expected)
    if expected:
        assert dict(small.model.solve()) == expected[0]
    else:
        with pytest.raises(Unsatisfiable):
            small.model.solve()


@bounded(120)
@given(small=smalls(most_constraints=2), data=st.data())
def test_first_solution_in_the_order_preferred(small, data):
    variables = small.model.variables
    wished = data.draw(st.permutations(variables))[: data.draw(st.integers(0, len(variables)))]
    wishes = [(v, data.draw(st.booleans())) for v in wished]
    prefer = [v.largest if largest else v.smallest for v, largest in wishes]

    def rank(values):
        first = [-values[v.index] if largest else values[v.index] for v, largest in wishes]
        return first, [d.index(x) for d, x in zip(small.domains, values, strict=True)]

    expected = [small.mapping(values) for values in sorted(small.solutions(), key=rank)]
    assert [dict(s) for s in small.model.solutions(prefer)] == expected
    if expected:
        assert dict(small.model.solve(prefer)) == expected[0]
        cost = data.draw(st.permutations(range(1, 5)))
        assert dict(
            small.model.best(lambda s: sum(c * v for c, v in zip(cost, s.values(), strict=False)))
        ) == min(
            (small.mapping(values) for values in small.solutions()),
            key=lambda s: sum(c * v for c, v in zip(cost, s.values(), strict=False)),
        )


@bounded(160)
@given(small=smalls(most_constraints=6))
def test_cores_clash_and_none_is_to_spare(small):
    if small.solutions():
        assert small.model.explain().core == ()
        return
    with pytest.raises(Unsatisfiable) as caught:
        small.model.solve()
    # One starts from the search in declared order, the other from one in an order of its own.
    for explanation in (caught.value.explanation, small.model.explain()):
        assert explanation.minimal
        assert explanation.core
        assert not small.solutions(explanation.core)
        for dropped in explanation.core:
            assert small.solutions([name for name in explanation.core if name != dropped])


@bounded(80)
@given(small=smalls(), data=st.data())
def test_why_a_value_is_ruled_out(small, data):
    place = data.draw(st.integers(0, len(small.domains) - 1))
    value = data.draw(st.sampled_from(small.domains[place]))
    domains = [[value] if i == place else d for i, d in enumerate(small.domains)]
    explanation = small.model.why(small.model.variables[place], value)
    assert explanation.satisfiable == bool(small.solutions(domains=domains))
    if not explanation.satisfiable:
        core = explanation.core
        assert not small.solutions(core, domains)
        assert all(small.solutions([n for n in core if n != dropped], domains) for dropped in core)


@bounded(120)
@given(small=smalls(most_constraints=3), data=st.data())
def test_relaxed_bounds_are_the_nearest(small, data):
    variables = list(small.model.variables)
    left, left_of = data.draw(expressions(variables, 2))
    right, right_of = data.draw(expressions(variables, 1))
    if not isinstance(left, Expression):
        return
    word = data.draw(st.sampled_from(["<=", "<", ">=", ">", "=="]))
    small.require(COMPARED[word](left, right), lambda v: COMPARED[word](left_of(v), right_of(v)))
    name = list(small.checks)[-1]
    others = [n for n in small.checks if n != name]
    relaxed = small.model.relax(name)
    assert relaxed.satisfiable == bool(small.solutions())
    without = small.solutions(others)
    assert relaxed.possible == bool(without)
    if relaxed.satisfiable or not relaxed.possible:
        assert not relaxed.moves
        return
    moves = sorted(
        {
            by
            for values in without
            for by in [left_of(values) - right_of(values) + {"<": 1, ">": -1}.get(word, 0)]
        },
        key=abs,
    )
    up = [by for by in moves if by > 0 and word not in (">", ">=")][:1]
    down = [by for by in moves if by < 0 and word not in ("<", "<=")][:1]
    assert sorted(move.by for move in relaxed.moves) == sorted(up + down)
    for move in relaxed.moves:
        values = tuple(move.solution.values())
        assert values in without
        assert COMPARED[word](left_of(values), right_of(values) + move.by)


@bounded(80)
@given(small=smalls())
def test_text_reads_back_as_it_was_written(small):
    text = str(small.model)
    again = Model.parse(text)
    assert str(again) == text
    assert [dict(s) for s in again.solutions()] == [dict(s) for s in small.model.solutions()]
