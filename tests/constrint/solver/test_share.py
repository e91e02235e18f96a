"""Products that several constraints share: they narrow more, and no solution shows them."""

import time
from itertools import combinations, product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import tile_problem
from rnnc.constrint import LimitReached, Model, Unsatisfiable


def area():
    """Clashes over a * b, which no constraint on a or b alone shows."""
    return Model.parse(
        """
        a in 1..30; b in 1..30; c in 1..10; d in 1..10
        "small": a * b <= 30
        "large": 3 * a * b * c >= 900
        "few": c <= 8
        "short": c < d
        """
    )


def test_a_bound_on_a_product_is_known_wherever_the_product_stands():
    m = area()
    # Without a decision: bounds of a and b alone allow 900.
    with pytest.raises(Unsatisfiable) as caught:
        m.solve(nodes=0)
    assert caught.value.core == ("small", "large", "few")
    assert str(m.explain()) == (
        "no solution: these 3 constraints clash; drop any one and a solution exists\n"
        "  - small: a * b <= 30\n"
        "  - large: 3 * a * b * c >= 900\n"
        "  - few: c <= 8\n"
        "  with a in 1..30, b in 1..30, c in 1..10"
    )
    assert m.why(m["c"], 7).core == ("small", "large")
    assert [move.bound for move in m.relax("small").moves] == [38]


def test_a_product_is_seen_through_brackets():
    m = Model.parse(
        """
        threads in 1..64; registers in 0..255
        "file": threads * (registers + 24) <= 2048
        "needed": threads * registers >= 2040
        """
    )
    with pytest.raises(Unsatisfiable) as caught:
        m.solve(nodes=0)
    assert caught.value.core == ("file", "needed")
    m = Model.parse(str(m).replace("2040", "1000"))
    expected = [
        (t, r) for t in range(1, 65) for r in range(256) if t * (r + 24) <= 2048 and t * r >= 1000
    ]
    assert [(s.threads, s.registers) for s in m.solutions()] == expected


def test_a_power_of_brackets_is_kept():
    m = Model.parse("a in 1..9; b in 1..9; a * b <= 20; a * (b + a) ** 2 <= 80; a * b * 2 >= 20")
    assert [(s.a, s.b) for s in m.solutions()] == [
        (a, b)
        for a in range(1, 10)
        for b in range(1, 10)
        if a * b <= 20 and a * (b + a) ** 2 <= 80 and a * b >= 10
    ]


def test_a_product_of_many_sums_is_not_multiplied_out():
    names = [f"x{i}" for i in range(36)]
    sums = [" + ".join(names[i : i + 6]) for i in range(0, 36, 6)]
    lines = [*(f"{name} in 1..2" for name in names), f"({') * ('.join(sums)}) <= {6**6}"]
    start = time.perf_counter()
    # Only the smallest values do, and 6**6 products would come out.
    assert Model.parse("\n".join(lines)).solve(nodes=0)
    assert time.perf_counter() - start < 5


def test_the_variable_of_a_product_stays_hidden():
    m = area()
    text = str(m).replace("c <= 8", "c <= 9").replace("3 * a * b", "4 * a * b")
    m = Model.parse(text)
    lines = []
    found = m.solve(trace=lines.append)
    assert list(found) == ["a", "b", "c", "d"]
    assert m.count() == len(list(m.solutions()))
    assert str(m) == text
    changes = [line for line in lines if " -> " in line]
    assert {line.split(":")[0] for line in changes} <= set("abcd")
    speakers = {line.split("   by ")[1] for line in changes}
    assert "the product a * b" in speakers
    others = {speaker for speaker in speakers if "decision" not in speaker}
    assert others <= {*m.constraints, "the product a * b"}
    with pytest.raises(LimitReached) as caught:
        m.solve(nodes=0)
    assert [bound.split(" in ")[0] for bound in caught.value.bounds] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("dim", [1536, 2048])
def test_a_large_head_takes_few_decisions(dim):
    # Over a hundred, where bounds of threads and of registers are known apart only.
    assert tile_problem(1, dim, 16, 4).solve(nodes=12)


def test_a_shared_product_is_not_enumerated():
    m = Model.parse(
        """
        a in 1..1000000; b in 1..1000000; c in 1..2; d in 1..3
        a * b <= 1000000000000
        a * b * c <= 2000000000000
        c < d
        """
    )
    assert m.count(seconds=20) == 3 * 10**12


FACTORS = ("a", "b", "c", "a * b", "b * c", "a * c", "a * b * c", "a * b**2", "b * c * d")


@st.composite
def products(draw):
    """A text with many constraints over few products, and the domains of its variables."""
    domains, lines = {}, []
    for name in "abcd":
        low = draw(st.sampled_from([1, 1, 1, 0, 2, -2]))
        values = list(range(low, low + draw(st.integers(0, 6))) or [low])
        if draw(st.booleans()):
            values = draw(st.permutations([v * 2 for v in values]))
        domains[name] = values
        lines.append(f"{name} in [{', '.join(map(str, values))}]")
    for number in range(draw(st.integers(2, 5))):
        term = st.builds(
            "{} * {}".format, st.sampled_from([1, 2, 3, -1, 8]), st.sampled_from(FACTORS)
        )
        left = draw(term)
        match draw(st.integers(0, 3)):
            case 0:
                left += f" + {draw(term)}"
            case 1:
                left += f" * ({draw(st.sampled_from('abcd'))} + {draw(st.integers(-2, 5))})"
                left += draw(st.sampled_from(["", "", " ** 2"]))
            case 2:
                left += f" - {draw(st.sampled_from('abcd'))}"
        word = draw(st.sampled_from(["<=", "<=", ">=", ">=", "==", "!="]))
        right = draw(st.one_of(st.integers(-5, 40), st.sampled_from(FACTORS)))
        lines.append(f'"c{number}": {left} {word} {right}')
    return "\n".join(lines), domains


def brute(text, domains, names):
    """All solutions of the named constraints, as the text says in Python."""
    checks = [
        compile(line.split(": ")[1], "", "eval") for line in text.splitlines() if line[1:3] in names
    ]
    out = []
    for values in product(*domains.values()):
        at = dict(zip(domains, values, strict=True))
        if all(eval(check, {}, at) for check in checks):
            out.append(at)
    return out


def examples(count):
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def check_shared_products(drawn):
    text, domains = drawn
    m = Model.parse(text)
    names = list(m.constraints)
    expected = brute(text, domains, names)
    assert [dict(s) for s in m.solutions()] == expected
    assert m.count() == len(expected)
    explanation = m.explain()
    assert explanation.satisfiable == bool(expected)
    if not expected:
        assert explanation.minimal
        assert not brute(text, domains, explanation.core)
        for fewer in combinations(explanation.core, len(explanation.core) - 1):
            assert brute(text, domains, fewer)


@examples(250)
@given(drawn=products())
def test_random_models_full_of_shared_products(drawn):
    check_shared_products(drawn)


@pytest.mark.slow
@examples(5000)
@given(drawn=products())
def test_many_more_models_full_of_shared_products(drawn):
    check_shared_products(drawn)
