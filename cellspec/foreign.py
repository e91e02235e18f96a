"""Advice on what to write in place of a function of Python, numpy or torch."""

from __future__ import annotations

import ast
import builtins
import re

#: Other libraries' names of functions of the table.
_SAME = {
    "absolute": "abs",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "around": "round",
    "clamp": "clip",
    "detach": "stop_gradient",
    "expit": "sigmoid",
    "fabs": "abs",
    "fix": "trunc",
    "float_power": "pow",
    "int": "trunc",
    "mod": "remainder",
    "power": "pow",
    "rint": "round",
    "sgn": "sign",
}
#: Functions that are no row of the table, as expressions of its rows.
_EXPRESSIONS = {
    "acos": "atan2(sqrt(1 - x * x), x)",
    "acosh": "log(x + sqrt(x * x - 1))",
    "add": "a + b",
    "arccos": "atan2(sqrt(1 - x * x), x)",
    "arccosh": "log(x + sqrt(x * x - 1))",
    "arcsin": "atan2(x, sqrt(1 - x * x))",
    "arctanh": "log1p(2 * x / (1 - x)) / 2",
    "asin": "atan2(x, sqrt(1 - x * x))",
    "atanh": "log1p(2 * x / (1 - x)) / 2",
    "cbrt": "sign(x) * abs(x) ** (1 / 3)",
    "copysign": "where(b < 0, -abs(a), abs(a))",
    "div": "a / b",
    "divide": "a / b",
    "divmod": "floor(x / y) and x % y",
    "floor_divide": "floor(x / y)",
    "erfc": "1 - erf(x)",
    "float": "x itself, which is a number",
    "hypot": "sqrt(x * x + y * y)",
    "isnan": "where(x != x, a, b), with a where x is NaN",
    "log10": "log(x) / 2.302585092994046",
    "logaddexp": "maximum(a, b) + log1p(exp(-abs(a - b)))",
    "logical_and": "(a > 0) & (b > 0)",
    "logical_not": "~(a > 0)",
    "logical_or": "(a > 0) | (b > 0)",
    "mul": "a * b",
    "multiply": "a * b",
    "neg": "-x",
    "sub": "a - b",
    "subtract": "a - b",
    "true_divide": "a / b",
}
#: Functions of all units, as expressions of reductions.
_OVER_UNITS = {
    "amax": "largest(x)",
    "amin": "-largest(-x)",
    "average": "mean(x)",
    "count_nonzero": "total(where(x != 0, 1, 0))",
    "dot": "total(a * b)",
    "fsum": "total(x)",
    "inner": "total(a * b)",
    "layer_norm": "layer_norm(x, gain, bias)",
    "linalg_norm": "sqrt(total(x * x))",
    "linalg_vector_norm": "sqrt(total(x * x))",
    "log_softmax": "x - largest(x) - log(total(exp(x - largest(x))))",
    "logsumexp": "largest(x) + log(total(exp(x - largest(x))))",
    "max": "largest(x)",
    "mean": "mean(x)",
    "min": "-largest(-x)",
    "norm": "sqrt(total(x * x))",
    "normalize": "x / sqrt(total(x * x) + 1e-12)",
    "rms_norm": "rms_norm(x, gain)",
    "softmax": "softmax(x)",
    "softmin": "softmax(-x)",
    "std": "sqrt(mean((x - mean(x)) ** 2))",
    "sum": "total(x)",
    "var": "mean((x - mean(x)) ** 2)",
}
#: Functions that multiply by a matrix.
_PRODUCTS = frozenset("addmm bmm conv1d einsum linear matmul mm mv tensordot".split())
#: Functions of several units that no cell has.
_NOWHERE = frozenset(
    """argmax argmin batch_norm cumprod cumsum group_norm instance_norm median prod sort
    topk""".split()
)
#: The page on what a cell cannot say, with the nearest way.
LIMITS = "docs/limits.md"
#: What the functions of other libraries do that ours do by an expression.
_ALSO = {
    "clip": "; for one bound maximum(x, low) or minimum(x, high)",
    "round": "; for two digits round(100 * x) / 100",
}


def in_our_words(library: str, name: str) -> str:
    """Return what to write in place of another library's function.

    Args:
        library: its name.
        name: of the function.
    """
    from .functions import TABLE  # its functions raise errors of `refuse`

    name = name.removeprefix("special_")  # as torch calls the functions of torch.special
    ours = _ours(name)
    if units := over_units(name):
        return units
    if (library, name) == ("math", "remainder"):
        return "x - y * round(x / y)"
    if name in _EXPRESSIONS:
        return _EXPRESSIONS[name]
    if not ours:
        return f"an expression of rnnc's functions: there is no {name} among them"
    if ours == "pow":
        return "a ** b"
    call = TABLE[ours].signature + _ALSO.get(ours, "")
    # Python's own function of this name takes a traced value.
    return call if hasattr(builtins, ours) else f"from rnnc import {ours}, and {call}"


def over_units(name: str) -> str:
    """Return the advice on another library's function of several units; empty for any other.

    Args:
        name: of the function.
    """
    if name in _PRODUCTS:
        return "n: Gate = gate(input=False) in the signature, and n(x)"
    if name in _NOWHERE:
        return f"a cell without it: for what no cell has see {LIMITS}"
    written = _OVER_UNITS.get(name, "")
    if not written:
        return ""
    if name in ("max", "min"):
        two = f"{name}imum"
        return f"from rnnc import {two}, and {two}(a, b) of two values; for all units {written}"
    return _imported(written)


def _imported(written: str) -> str:
    """An expression after an import of the functions that it calls."""
    names = sorted({*re.findall(r"(\w+)\(", written)})
    return f"from rnnc import {', '.join(names)}, and {written}"


def of_sequence(text: str) -> str:
    """Return the advice on a call of Python's that takes a sequence; empty for any other text.

    Args:
        text: of a call such as `sum(h)`.
    """
    called = re.match(r"(?:math\.)?(sum|fsum|max|min)\(", text)
    return _imported(_OVER_UNITS[called[1]]) if called else ""


def of_call(text: str) -> str:
    """Return what to write in place of the call that a text is; empty if there is nothing like it.

    Args:
        text: of a call that wants a Python number, such as `math.tanh(g)`.
    """
    called = re.match(r"(math\.)?(?:\w+\.)?(\w+)\(", text)
    if called is None:
        return ""
    if called[2] == "log" and len(arguments_of(text)) == 2:
        base = arguments_of(text)[1]
        return f"from rnnc import log, and log(x) / {'math.' * base.isdecimal()}log({base})"
    known = called[1] or called[2] in _EXPRESSIONS or _ours(called[2])
    return in_our_words("math", called[2]) if known else ""


def arguments_of(text: str) -> list[str]:
    """The texts of the arguments of the call that a text is; empty if it is none.

    Args:
        text: of what a line of Python evaluates.
    """
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        return []
    return [ast.unparse(argument) for argument in call.args] if isinstance(call, ast.Call) else []


def _ours(name: str) -> str:
    """The function of the table that another library calls so; empty if there is none."""
    from .functions import TABLE  # its functions raise errors of `refuse`

    ours = _SAME.get(name, name)
    return ours if ours in TABLE else ""
