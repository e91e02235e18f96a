"""The error messages for wrong models."""

import pytest
from rnnc.constrint import Model, ModelError, TextError, UnknownVariableError


def model():
    m = Model()
    m.int("a", 1, 9)
    m.int("b", 0, 9)
    m.int("tile", [8, 16, 32])
    return m


def said(m, attempt, error=ModelError):
    with pytest.raises(error) as caught:
        attempt(m)
    return str(caught.value)


MESSAGES = {
    "an `if`": (
        lambda m: "yes" if m["a"] < m["b"] else "no",
        "`a < b` used as true or false\n"
        "  found:  a comparison over variables in an `if`, `and`, `or`, `not`, `in` or a chain such"
        " as `1 <= a <= 5`\n"
        "  wanted: a constraint handed to require, joined by &, | and ~\n"
        "  write:  m.require(a < b); for a chain, m.require((1 <= a) & (a <= 5))",
    ),
    "a chain": (
        lambda m: m.require(1 <= m["a"] <= 5),
        "`a >= 1` used as true or false\n"
        "  found:  a comparison over variables in an `if`, `and`, `or`, `not`, `in` or a chain such"
        " as `1 <= a <= 5`\n"
        "  wanted: a constraint handed to require, joined by &, | and ~\n"
        "  write:  m.require(a >= 1); for a chain, m.require((1 <= a) & (a <= 5))",
    ),
    "an expression as a bool": (
        lambda m: not m["a"],
        "`a` used as true or false\n"
        "  found:  an expression over variables, which has no value before the model is solved\n"
        "  wanted: a comparison handed to require\n"
        "  write:  m.require(a != 0)",
    ),
    "a float": (
        lambda m: m.require(m["a"] * 0.5 <= 3),
        "`a * ...`\n"
        "  found:  0.5, a float\n"
        "  wanted: an integer\n"
        "  write:  an int; scale both sides so that no fraction is left",
    ),
    "a whole float": (
        lambda m: m.require(m["a"] <= 3.0),
        "`a <= ...`\n  found:  3.0, a float\n  wanted: an integer\n  write:  3",
    ),
    "an infinite float": (
        lambda m: m.int("c", 1, float("inf")),
        "m.int('c', ...)\n"
        "  found:  inf, a float\n"
        "  wanted: an integer\n"
        "  write:  an int; scale both sides so that no fraction is left",
    ),
    "a fraction": (
        lambda m: m.require(m["a"] / 2 == 3),
        "`a / 2`\n"
        "  found:  /, which makes a fraction\n"
        "  wanted: integers only\n"
        "  write:  a // 2, or multiply the other side",
    ),
    "0 as a divisor": (
        lambda m: m.require(m["a"] % 0 == 1),
        "`a % 0`\n"
        "  found:  0 as a divisor\n"
        "  wanted: a divisor whose bounds leave out 0\n"
        "  write:  domains that start at 1, or another divisor",
    ),
    "a divisor that may be 0": (
        lambda m: m.require(64 // (m["a"] - m["b"]) == 1),
        "`64 // (a - b)`\n"
        "  found:  a divisor, (a - b), that may be 0 (its bounds are -8..9)\n"
        "  wanted: a divisor whose bounds leave out 0\n"
        "  write:  domains that start at 1, or another divisor",
    ),
    "a negative exponent": (
        lambda m: m.require(2 ** (m["a"] - 2) == 1),
        "`2 ** (a - 2)`\n"
        "  found:  an exponent in -1..7\n"
        "  wanted: an exponent in 0..1024\n"
        "  write:  a domain for the exponent within these bounds",
    ),
    "an empty range": (
        lambda m: m.int("c", 9, 1),
        "m.int('c', ...)\n"
        "  found:  an empty domain, 9..1\n"
        "  wanted: a lower bound that is not above the upper one\n"
        '  write:  m.int("c", 1, 9)',
    ),
    "an empty list": (
        lambda m: m.int("c", []),
        "m.int('c', ...)\n"
        "  found:  an empty domain\n"
        "  wanted: at least one value\n"
        '  write:  m.int("c", [8, 16])',
    ),
    "a range too large": (
        lambda m: m.int("c", 0, 2**63),
        "m.int('c', ...)\n"
        "  found:  the domain 0..9223372036854775808\n"
        "  wanted: values from -2**62 to 2**62\n"
        '  write:  m.int("c", 1, 2**62)',
    ),
    "one bound": (
        lambda m: m.int("c", 9),
        "m.int('c', ...)\n"
        "  found:  a lower bound alone\n"
        "  wanted: two bounds or a list\n"
        '  write:  m.int("c", 9, 64)',
    ),
    "no name": (
        lambda m: m.int("head dim", 1, 9),
        "m.int('head dim', ...)\n"
        "  found:  the name 'head dim'\n"
        "  wanted: a Python identifier\n"
        '  write:  m.int("tile", 1, 32)',
    ),
    "a name twice": (
        lambda m: m.int("a", 1, 9),
        "m.int('a', ...)\n"
        "  found:  a second variable 'a'\n"
        "  wanted: a new name\n"
        '  write:  m["a"] for the first',
    ),
    "a constraint's name twice": (
        lambda m: [m.require(m["a"] > 1, "large"), m.require(m["b"] > 1, "large")],
        "m.require(b > 1, 'large')\n"
        "  found:  a second constraint named 'large'\n"
        "  wanted: a name of its own, by which explanations can tell them apart\n"
        '  write:  "large (2)", or no name',
    ),
    "no constraint": (
        lambda m: m.require(m["a"] + 1),
        "`m.require(...)`\n"
        "  found:  a + 1, a Binary\n"
        "  wanted: a constraint, which a comparison makes\n"
        "  write:  a + 1 != 0",
    ),
    "a variable of another model": (
        lambda m: m.require(model()["tile"] == 8),
        "m.require(tile == 8)\n"
        "  found:  tile, a variable of another model\n"
        "  wanted: variables of this one\n"
        '  write:  m.int("tile", 8, 32) here',
    ),
    "an unknown variable": (
        lambda m: m["tiles"],
        "m['tiles']\n  found:  no variable 'tiles'\n  wanted: one of its variables\n  write:  tile",
    ),
    "an unknown variable of a solution": (
        lambda m: m.solve().tlie,
        "solution\n  found:  no variable 'tlie'\n  wanted: one of its variables\n  write:  tile",
    ),
    "an unknown constraint": (
        lambda m: [m.require(m["a"] > 1, "large"), m.relax("larg")],
        "m.relax('larg')\n"
        "  found:  no constraint of this name\n"
        "  wanted: one of the model's\n"
        "  write:  large",
    ),
    "no preference": (
        lambda m: m.solve(prefer=[m["a"]]),
        "prefer=[...]\n"
        "  found:  a\n"
        "  wanted: x.largest or x.smallest\n"
        "  write:  prefer=[a.largest]",
    ),
    "a preference twice": (
        lambda m: m.solve(prefer=[m["a"].largest, m["a"].smallest]),
        "prefer=[...]\n"
        "  found:  a twice\n"
        "  wanted: each variable once\n"
        "  write:  prefer=[a.smallest]",
    ),
    "no values": (
        lambda m: m["a"].isin([]),
        "`a in ...`\n  found:  no values\n  wanted: at least one\n  write:  (a).isin([8, 16])",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages(case):
    attempt, text = MESSAGES[case]
    assert said(model(), attempt) == text


def test_an_unknown_name_is_what_python_expects():
    m = model()
    for error in (UnknownVariableError, KeyError):
        with pytest.raises(error):
            m["c"]
    with pytest.raises(AttributeError):
        _ = m.solve().c


TEXTS = {
    "warps in 1..32;\nwarp <= 4": (
        "line 2, column 1\n"
        "    warp <= 4\n"
        "    ^\n"
        "  found:  `warp`, which is not declared\n"
        "  wanted: a declared name\n"
        "  write:  warps"
    ),
    "a in 1..9; a / 2 == 3": (
        "line 1, column 14\n"
        "    a in 1..9; a / 2 == 3\n"
        "                 ^\n"
        "  found:  `/`\n"
        "  wanted: an integer, a name, a bracket, or one of + - * // % ** == != <= < >= >\n"
        "  write:  //"
    ),
    "a in 1..9\n\ta = 3": (
        "line 2, column 4\n"
        "    \ta = 3\n"
        "    \t  ^\n"
        "  found:  `=`\n"
        "  wanted: an integer, a name, a bracket, or one of + - * // % ** == != <= < >= >\n"
        "  write:  =="
    ),
    "a in 1..9; a <= 2.5": (
        "line 1, column 17\n"
        "    a in 1..9; a <= 2.5\n"
        "                    ^\n"
        "  found:  `2.5`\n"
        "  wanted: an integer, a name, a bracket, or one of + - * // % ** == != <= < >= >\n"
        "  write:  an integer; scale both sides so that no fraction is left"
    ),
    "a in 1..9; (a + 2 <= 3": (
        "line 1, column 23\n"
        "    a in 1..9; (a + 2 <= 3\n"
        "                          ^\n"
        "  found:  the end of the text\n"
        "  wanted: `)`\n"
        "  write:  a `)` for each `(`"
    ),
    "a in 1..9; a + 2": (
        "line 1, column 12\n"
        "    a in 1..9; a + 2\n"
        "               ^\n"
        "  found:  the number `a + 2`\n"
        "  wanted: a constraint\n"
        "  write:  a + 2 == 1"
    ),
    "a in 1..9; 1 <= a <= 5": (
        "line 1, column 12\n"
        "    a in 1..9; 1 <= a <= 5\n"
        "               ^\n"
        "  found:  the constraint `1 <= a`\n"
        "  wanted: a number\n"
        "  write:  a <= b and b <= c, not a <= b <= c"
    ),
    "a in 1..9; a % 0 == 1": (
        "line 1, column 14\n"
        "    a in 1..9; a % 0 == 1\n"
        "                 ^\n"
        "  found:  0 as a divisor\n"
        "  wanted: a divisor whose bounds leave out 0\n"
        "  write:  domains that start at 1, or another divisor"
    ),
    "a in 9..1": (
        "line 1, column 1\n"
        "    a in 9..1\n"
        "    ^\n"
        "  found:  an empty domain, 9..1\n"
        "  wanted: a lower bound that is not above the upper one\n"
        '  write:  m.int("a", 1, 9)'
    ),
    "a in 1..9 a > 2": (
        "line 1, column 11\n"
        "    a in 1..9 a > 2\n"
        "              ^\n"
        "  found:  `a`\n"
        "  wanted: an operator or the end of the statement\n"
        "  write:  ; or a new line"
    ),
    'a in 1..9\n"large" a > 2': (
        "line 2, column 9\n"
        '    "large" a > 2\n'
        "            ^\n"
        "  found:  `a`\n"
        "  wanted: `:`\n"
        '  write:  "large": a <= b'
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_errors_of_the_text_form_point_at_the_column(text):
    assert said(None, lambda _: Model.parse(text), TextError) == TEXTS[text]


def test_the_text_form():
    text = """
    # tiles of a kernel; a comment may say a == b
    warps in 1..32; tile in [8, 16, 32]
    split in 1..768;
    768 % (split * tile) == 0        # no name
    "threads a block": warps * tile * 4 <= 1024;
    tile == [16, 32]; split * tile != [16, 64]
    (warps > 4 -> tile == 16) and not warps == 3
    warps in 2..8; 2 ^ 3 <= warps
       + 4 or tile not in [8]
    """.replace("warps\n       + 4", "(warps\n       + 4)")
    m = Model.parse(text)
    assert str(m).splitlines() == [
        "warps in 1..32;",
        "tile in [8, 16, 32];",
        "split in 1..768;",
        "768 % (split * tile) == 0;",
        '"threads a block": warps * tile * 4 <= 1024;',
        "tile in [16, 32];",
        "split * tile not in [16, 64];",
        "(warps > 4 -> tile == 16) and warps != 3;",
        "warps >= 2 and warps <= 8;",
        "2 ** 3 <= warps + 4 or tile not in [8];",
    ]
    assert str(Model.parse(str(m))) == str(m)
    expected = [
        (w, t, s)
        for w in range(1, 33)
        for t in (8, 16, 32)
        for s in range(1, 769)
        if 768 % (s * t) == 0 and w * t * 4 <= 1024 and t in (16, 32) and s * t not in (16, 64)
        if (w <= 4 or t == 16) and w != 3 and 2 <= w <= 8 and (w + 4 >= 8 or t != 8)
    ]
    assert [tuple(s.values()) for s in m.solutions()] == expected
