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

    if (library, name) == ("math", "remainder"):
        return "x - y * round(x / y)"
    ours = _SAME.get(name, name)
    if name in _EXPRESSIONS:
        return _EXPRESSIONS[name]
    if ours not in TABLE:
        return f"an expression of rnnc's functions: there is no {name} among them"
    if hasattr(builtins, ours):
        return "a ** b" if ours == "pow" else TABLE[ours].signature
    return f"from rnnc import {ours}, and {TABLE[ours].signature}"


def of_math(text: str) -> str:
    """What to write in place of the call that a text is; empty if it is none of math.

    Args:
        text: of a call, such as `math.tanh(g)`.
    """
    called = re.match(r"math\.(\w+)\(", text)
    return in_our_words("math", called[1]) if called else ""
