"""What to write in place of a function of Python, numpy or torch."""

from __future__ import annotations

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
    "int": "trunc",
    "mod": "remainder",
    "power": "pow",
    "rint": "round",
    "sgn": "sign",
}
#: Functions that are no row of the table, as expressions of its rows.
_EXPRESSIONS = {
    "divmod": "floor(x / y) and x % y",
    "floor_divide": "floor(x / y)",
    "hypot": "sqrt(x * x + y * y)",
    "isnan": "where(x != x, a, b), with a where x is NaN",
    "log10": "log(x) / 2.302585092994046",
    "logaddexp": "maximum(a, b) + log1p(exp(-abs(a - b)))",
}


def in_our_words(library: str, name: str) -> str:
    """What to write in place of another library's function.

    Args:
        library: its name.
        name: of the function.
    """
    from .functions import TABLE  # its functions raise errors of `refuse`

    ours = _ours(name)
    if (library, name) == ("math", "remainder"):
        return "x - y * round(x / y)"
    if name in _EXPRESSIONS:
        return _EXPRESSIONS[name]
    if not ours:
        return f"an expression of rnnc's functions: there is no {name} among them"
    if ours == "pow":
        return "a ** b"
    signature = TABLE[ours].signature
    # Python's own function of this name takes a traced value.
    return signature if hasattr(builtins, ours) else f"from rnnc import {ours}, and {signature}"


def of_call(text: str) -> str:
    """What to write in place of the call that a text is; empty if there is nothing like it.

    Args:
        text: of a call that wants a Python number, such as `math.tanh(g)`.
    """
    called = re.match(r"(?:\w+\.)?(\w+)\(", text)
    known = called and (called[1] in _EXPRESSIONS or _ours(called[1]))
    return in_our_words("math", called[1]) if called and known else ""


def _ours(name: str) -> str:
    """The function of the table that another library calls so; empty if there is none."""
    from .functions import TABLE  # its functions raise errors of `refuse`

    ours = _SAME.get(name, name)
    return ours if ours in TABLE else ""
