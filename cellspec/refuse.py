"""Errors about uses of symbols and texts that are not in the language.

Operands are passed as messages show them. Each `write` part that starts with code works as it is.
"""

from __future__ import annotations

import re

from .arguments import signatures
from .errors import CellError
from .foreign import arguments_of, in_our_words, of_call, of_sequence, over_units


def decision(value: str) -> CellError:
    """A Python decision on a symbol."""
    return CellError(
        f"a Python decision (if, and, or, not, max, min) on {value}",
        "one expression for all units: its value is not known while the cell is traced",
        "where(condition, a, b), maximum(a, b) or minimum(a, b);"
        " & and | join conditions, ~ negates one",
    )


def python_number(value: str, text: str) -> CellError:
    """A symbol converted to a Python number by what a text writes."""
    return CellError(
        f"{value} turned into a Python number, as the functions of math do",
        "a function of rnnc's table, which has a derivative and a CUDA spelling",
        of_call(text) or "from rnnc import tanh, exp, … and call that one",
    )


def called(value: str, name: str, given: list[str]) -> CellError:
    """A symbol called like a function; its name, if it is an argument of the cell."""
    hidden = signatures()
    found = f"a call of {value}, with {', '.join(given) or 'no argument'}"
    if name in hidden:
        return CellError(
            f"{found}: here `{name}` is an argument of the cell",
            f"the function {hidden[name]} by a name that no argument hides",
            f"rnnc.{name}(…), or another name for the argument `{name}`",
        )
    product = f"{_part(value)} * {_part(given[0])}" if len(given) == 1 else "a * b"
    return CellError(
        found,
        "a function of rnnc's table or of Python: a value is not a function",
        f"{product}, for a product of two values; a product with a matrix is a call of a gate",
    )


def called_condition(value: str, given: list[str]) -> CellError:
    """A condition called like a function."""
    inner, chosen, *_ = (part.strip("`") for part in (value, *given, "1"))
    other = given[1].strip("`") if len(given) > 1 else "0"
    return CellError(
        f"a call of the condition {value}, with {', '.join(given) or 'no argument'}",
        "a function of rnnc's table or of Python: a condition chooses between two values",
        f"where({inner}, {chosen}, {other})",
    )


def _part(value: str) -> str:
    """A value as a part of an expression: in brackets, if it is more than a name or a number."""
    text = "x" if value.startswith("a value of ") else value.strip("`")
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


def _argument(value: str) -> str:
    """A value as an argument of a call."""
    return "x" if value[0] != "`" else value.strip("`")


def numbers_alone(function: str, given: list[str]) -> CellError:
    """A call of a function of the language with nothing of the cell."""
    return CellError(
        f"{function}({', '.join(given)})",
        "a gate, state, param or constant of the cell among the arguments",
        "the value itself, as a number",
    )


def digits(value: str, count: object) -> CellError:
    """A symbol rounded to digits after the point, or before it; their count as messages show it."""
    if not isinstance(count, int):
        return CellError(
            f"round({value}, {count})",
            "round(x), or a whole number of digits",
            "round(100 * x) / 100, which rounds to two digits after the point",
        )
    factor = 10 ** abs(count)
    return CellError(
        f"round({value}, {count})",
        "round(x), which gives a whole number",
        f"round({factor} * x) / {factor}" if count > 0 else f"{factor} * round(x / {factor})",
    )


def division_by_zero(found: str) -> CellError:
    """The error of a divisor that is the number 0."""
    return CellError(found, "a divisor that is not zero", "another divisor")


def power_and_remainder(base: str, exponent: str, modulus: str) -> CellError:
    """A power with a third argument."""
    return CellError(
        f"pow({base}, {exponent}, {modulus})",
        "a base and an exponent: a remainder of the power is an operator of its own",
        f"{_part(base)}**{_part(exponent)} % {_part(modulus)}",
    )


def exception(error: Exception, text: str) -> CellError:
    """An exception of Python about a traced value, in what a text of the author's writes."""
    if re.search(r"pow\(\): '\w+', '\w+', '\w+'", str(error)):
        # Python up to 3.13 asks the first operand alone, which may be a number.
        return power_and_remainder(*(arguments_of(text) or ("x", "y", "z")))
    return CellError(
        f"{type(error).__name__}: {error}",
        "arithmetic, comparisons and functions of rnnc's table on traced values",
        "an expression of those, with the arguments that the function has",
    )


def sequence(value: str, text: str) -> CellError:
    """A symbol in a loop, its length, or a part of it, in what a text writes."""
    return CellError(
        f"{value} used as a sequence (a loop, an index, len)",
        "an expression for one unit: a symbol has no length",
        of_sequence(text)
        or "arithmetic within one unit; the compiler adds heads, batch and time, and mean(x),"
        " total(x) and largest(x) read all units of a head",
    )


def formatted(value: str, specification: str) -> CellError:
    """A symbol formatted with digits."""
    return CellError(
        f"{value} formatted as {specification!r}",
        "a format without digits: its value is not known while the cell is traced",
        'f"{g}", which shows the expression',
    )


def attribute(value: str, name: str) -> CellError:
    """An attribute or method of a symbol."""
    return CellError(
        f"the attribute .{name} of {value}",
        "arithmetic and functions of rnnc's table",
        in_our_words("torch", name),
    )


def foreign_call(library: str, name: str) -> CellError:
    """A call of another library's function on a symbol."""
    if written := over_units(name):
        return CellError(
            f"a call of {library}.{name}",
            "functions of rnnc: of one unit's values, or a reduction over the units of a head",
            written,
        )
    return CellError(
        f"a call of {library}.{name}",
        "a function of rnnc's table, which has a derivative and a CUDA spelling",
        in_our_words(library, name),
    )


def operator(symbol: str, left: str, right: str) -> CellError:
    """An operator that the language lacks."""
    used = f"{left} {symbol} {right}".strip() if symbol != "divmod" else f"divmod({left}, {right})"
    found = f"an operator that is not in the language: {used}"
    if symbol in ("&", "|", "^", "~"):
        return CellError(
            f"{used}, which joins numbers",
            "comparisons joined by & or |, each in brackets: Python reads & before >",
            f"(a > 0) {symbol if symbol in '&|' else '&'} (b > 0)",
        )
    if symbol == "@":
        return CellError(
            found,
            "arithmetic within one unit; a product with a matrix is a call of a gate",
            f"n: Gate = gate(input=False) in the signature, and n({_argument(right)})",
        )
    remedies = {
        "//": "floor(x / y)",
        "divmod": "floor(x / y) and x % y",
        "<<": "x * 2, x * 4, …",
        ">>": "x / 2, x / 4, …",
    }
    return CellError(
        found, "+ - * / % ** and comparisons: real numbers, without bits", remedies[symbol]
    )


def condition(value: str, factor: str = "") -> CellError:
    """Arithmetic with a condition; a product has a factor."""
    inner = value.strip("`")
    factor = factor.strip("`") or "1"
    return CellError(
        f"the condition {value} in arithmetic",
        "a number: a condition chooses between two",
        f"where({inner}, {factor}, 0)",
    )


def conditions_compared(relation: str, left: str, right: str) -> CellError:
    """A comparison of two conditions."""
    a, b = (f"({side.strip('`')})" for side in (left, right))
    unequal = f"({a} & ~{b}) | (~{a} & {b})"
    return CellError(
        f"{left} {relation} {right}, which compares two conditions",
        "conditions joined by & and |, or negated by ~",
        f"({a} & {b}) | (~{a} & ~{b})" if relation == "==" else unequal,
    )


def returned(values: dict[object, object], states: list[str]) -> CellError:
    """New values returned in a dict."""
    names = ", ".join(states)
    given = ", ".join(f"values[{state!r}]" for state in states)
    return CellError(
        f"a dict returned, with {', '.join(map(repr, values))}",
        f"the new value of each state, in the order of the signature: {names}",
        f"return {given}, where `values` is that dict",
    )


def operand(value: str, object_: object) -> CellError:
    """An operand that is not a number of the cell."""
    one = getattr(object_, "numel", None) or getattr(object_, "size", None)
    count = one() if callable(one) else one
    if object_ is None:
        write = "a number, or a name of the signature"
    elif isinstance(object_, bool):
        write = "1 or 0"
    elif isinstance(object_, dict):
        write = "return h, c: the new value of each state, in order"
    elif count == 1:
        write = "a learned value as w: Param, a number as float(x) or alpha: Constant ="
        write += " constant(0.1)"
    else:
        write = "a learned value as w: Param, a number as alpha: Constant = constant(0.1)"
    return CellError(
        f"{value} inside the equations", "gates, states, params, constants and plain numbers", write
    )


def text(written: str, part: str) -> CellError:
    """A text with a part that the language does not have."""
    return CellError(
        f"`{_shortened(written)}`, at {part}",
        "an expression of + - * / **, comparisons and the functions of rnnc's table",
        "for example sigmoid(f)*c + sigmoid(i)*tanh(z)",
    )


def deep_text(written: str) -> CellError:
    """A text with deeper brackets than Python's parser accepts."""
    found = f"`{_shortened(written)}`, with deeper brackets than Python's parser accepts"
    wanted = "names for the deep parts: the text has a limit, the expression has none"
    write = '"shared": [["t0", "tanh(g)"], …] in the JSON, and t0 in place of that part'
    return CellError(found, wanted, write)


def _shortened(written: str) -> str:
    return written if len(written) <= 200 else f"{written[:100]} … {written[-80:]}"


def leaked(name: str) -> CellError:
    """A value of a step that is used outside it.

    Args:
        name: of the carried value.
    """
    return CellError(
        f"a value of a step of repeat used outside it: it reads the carried `{name}`",
        "outside a step, the values that repeat returns",
        "v = repeat(n, step, v), and v after it; or one more carried value",
    )
