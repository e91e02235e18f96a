"""The answers of a model: orders, limits, large domains, reasons, traces."""

import copy
import pickle
import time

import pytest
from rnnc.constrint import LimitReached, Model, ModelError, Unsatisfiable


def tiles():
    m = Model()
    warps = m.int("warps", 1, 32)
    tile = m.int("tile", [8, 16, 32])
    split = m.int("split", 1, 768)
    m.require(768 % (split * tile) == 0, "head dim divides into splits of tiles")
    m.require(warps * tile * 4 <= 1024, "threads a block")
    return m, warps, tile, split


def test_the_example_of_the_page():
    m, warps, _, split = tiles()
    best = m.solve(prefer=[warps.largest, split.smallest])
    assert dict(best) == {"warps": 32, "tile": 8, "split": 1}
    assert m.count() == len(list(m.solutions()))


def test_values_are_tried_in_declared_order():
    m = Model()
    a = m.int("a", [3, 1, 2])
    b = m.int("b", [2, 3])
    m.require(a != b)
    assert [(s.a, s.b) for s in m.solutions()] == [(3, 2), (1, 2), (1, 3), (2, 3)]


def test_a_long_list_keeps_its_order():
    m = Model()
    values = [*range(700, 1400), *range(700)]
    a = m.int("a", values)
    m.require(a % 2 == 0)
    assert [s.a for s in m.solutions()] == [v for v in values if v % 2 == 0]


def test_brackets_mean_what_they_say():
    m = Model()
    a, b, c = (m.int(name, 1, 9) for name in "abc")
    m.require(a * (b + c) == 35)
    m.require(a - (b - c) == 6)
    assert all(s.a * (s.b + s.c) == 35 and s.a - (s.b - s.c) == 6 for s in m.solutions())
    assert m.count() == sum(
        x * (y + z) == 35 and x - (y - z) == 6
        for x in range(1, 10)
        for y in range(1, 10)
        for z in range(1, 10)
    )


def test_large_domains_are_never_enumerated():
    m = Model()
    a, b = m.int("a", 1, 2**62), m.int("b", 1, 2**62)
    # Two primes near 2^31: factored, not searched.
    m.require(a * b == 2147483647 * 2147483629)
    m.require(a > 1)
    m.require(b > 1)
    assert [s.a for s in m.solutions(seconds=20)] == [2147483629, 2147483647]


def test_large_sums_and_remainders():
    m = Model()
    a, b = m.int("a", -(2**62), 2**62), m.int("b", 1, 2**62)
    m.require(a % 1000003 == 17)
    m.require(a + b == 2**40)
    m.require(b <= 2 * 1000003)
    found = [s.a for s in m.solutions(seconds=20)]
    assert found == [a for a in range(2**40 - 2000006, 2**40) if a % 1000003 == 17]


def test_the_same_model_gives_the_same_answers_in_the_same_number_of_steps():
    def run():
        m, *_ = tiles()
        lines = []
        m.solve(trace=lines.append)
        return lines, [str(s) for s in m.solutions()], str(m)

    assert run() == run()


def test_a_solution_is_a_frozen_mapping():
    m, _, tile, _ = tiles()
    s = m.solve()
    assert s.tile == s["tile"] == s[tile]
    assert "tile" in s
    assert "block" not in s
    assert not hasattr(s, "block")
    assert str(s) == "warps=1 tile=8 split=1"
    assert s == copy.deepcopy(s) == pickle.loads(pickle.dumps(s)) == dict(s)
    assert len({s, copy.copy(s)}) == 1
    with pytest.raises(ModelError, match="a solution being changed"):
        s.tile = 8


def test_equal_keys_give_the_first_solution():
    m, *_ = tiles()
    assert m.best(lambda s: 0) == m.solve()
    assert m.best(lambda s: (-s.tile, s.split)).tile == 32


def test_an_error_speaks_of_the_model_that_failed():
    m = Model()
    a = m.int("a", 1, 9)
    m.require(a > 5, "large")
    m.require(a < 3, "small")
    with pytest.raises(Unsatisfiable) as caught:
        m.solve()
    m.require(a == 1, "later")
    assert caught.value.core == ("large", "small")
    assert str(caught.value) == (
        "no solution: these 2 constraints clash; drop any one and a solution exists\n"
        "  - large: a > 5\n"
        "  - small: a < 3\n"
        "  with a in 1..9"
    )


def test_why_names_what_rules_a_value_out():
    m, warps, tile, _ = tiles()
    m.require(warps >= 16, "enough warps")
    assert str(m.why(tile, 32)) == (
        "tile cannot be 32: these 2 constraints clash; drop any one and a solution exists\n"
        "  - threads a block: warps * tile * 4 <= 1024\n"
        "  - enough warps: warps >= 16\n"
        "  with warps in 1..32, tile in [8, 16, 32]"
    )
    assert str(m.why(tile, 12)) == (
        "tile cannot be 12: it was declared without it\n  with tile in [8, 16, 32]"
    )
    possible = m.why(tile, 16)
    assert possible.satisfiable
    assert str(possible).startswith("tile can be 16, for example warps=16 tile=16")


def test_relax_says_how_far_a_bound_has_to_move():
    m, warps, tile, _ = tiles()
    m.require(warps == 32, "all warps")
    m.require(tile == 32, "wide tiles")
    relaxed = m.relax("threads a block")
    assert [(move.by, move.bound) for move in relaxed.moves] == [(3072, 4096)]
    assert str(relaxed) == (
        "threads a block: warps * tile * 4 <= 1024\n"
        "  has a solution at `warps * tile * 4 <= 4096` (up by 3072),"
        " for example warps=32 tile=32 split=1"
    )
    assert [move.bound for move in m.relax("all warps").moves] == [8]


def test_relax_where_no_move_helps_or_none_is_needed():
    m = Model()
    a = m.int("a", 1, 9)
    m.require(a > 5, "large")
    m.require(a < 3, "small")
    m.require(a != 4, "not four")
    assert str(m.relax("not four")) == (
        "not four: a != 4\n"
        "  no move helps; without it, nothing fits: these 2 constraints clash;"
        " drop any one and a solution exists\n"
        "  - large: a > 5\n"
        "  - small: a < 3\n"
        "  with a in 1..9"
    )
    n = Model()
    b = n.int("b", 1, 9)
    n.require((b == 2) | (b == 4), "few")
    n.require(b > 2, "large")
    assert str(n.relax("large")) == "large: b > 2\n  need not move: b=4"
    n.require(b == 5, "five")
    assert str(n.relax("few")) == ("few: b == 2 or b == 4\n  has no bound to move; without it, b=5")


def pigeons(n):
    """n pigeons in n - 1 holes: no propagation sees it, and the search is long."""
    m = Model()
    places = [m.int(f"p{i}", 1, n - 1) for i in range(n)]
    for i in range(n):
        for j in range(i):
            m.require(places[i] != places[j])
    return m


def test_a_limit_is_never_called_unsatisfiable():
    for ask in ("solve", "count", "explain"):
        with pytest.raises(LimitReached) as caught:
            getattr(pigeons(9), ask)(nodes=20)
        assert caught.value.nodes == 20
        assert caught.value.bounds[0] == "p0 in 1..8"
        assert caught.value.found == 0
    with pytest.raises(LimitReached):
        list(pigeons(9).solutions(nodes=20))


def test_a_limit_on_time_is_kept():
    start = time.perf_counter()
    with pytest.raises(LimitReached) as caught:
        pigeons(12).solve(seconds=0.2)
    assert time.perf_counter() - start < 5
    assert caught.value.seconds >= 0.2


def test_creeping_bounds_end_by_the_limit():
    m = Model()
    a, b = m.int("a", 0, 2**62), m.int("b", 0, 2**62)
    m.require(a < b)
    m.require(b < a)
    with pytest.raises(LimitReached):
        m.solve(seconds=0.3)


def test_a_limit_keeps_what_was_found():
    m = Model()
    a = m.int("a", 1, 1000)
    m.require(a * a > 4)
    with pytest.raises(LimitReached) as caught:
        m.best(lambda s: -s.a, nodes=50)
    assert caught.value.best is not None
    assert caught.value.found >= caught.value.best.a - 2
    assert str(caught.value).startswith("stopped undecided after 50 nodes and 0.")


def test_count_multiplies_what_nothing_ties_together():
    m = Model()
    a, b, c, d = (m.int(name, 1, 2**40) for name in "abcd")
    m.require(a <= 3)
    m.require((b > 5).implies(c == 1))
    m.require(b <= 7)
    assert m.count(seconds=20) == 3 * (5 * 2**40 + 2) * 2**40
    assert d.high == 2**40


def test_a_trace_tells_each_step(capsys):
    m = Model()
    a, b = m.int("a", 1, 9), m.int("b", 1, 9)
    m.require(a * b == 12, "area")
    m.require(a < b, "lying")
    assert dict(m.solve(trace=True)) == {"a": 2, "b": 6}
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "solution"
    assert any(
        line.startswith("a: 2") and line.endswith("-> 2   by decision 1") for line in printed
    )
    assert any(line.endswith("by area") for line in printed)
