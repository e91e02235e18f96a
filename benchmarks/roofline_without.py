"""Kernels without their matrix product, or without the cell's equations, for `roofline.py`.

The time that a kernel loses is the share of the part. The text of a kernel is changed before it is
compiled. It exchanges, waits for and stores the same words as before, so its results are wrong and
its times are valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from rnnc.codegen.render import Source

# One addition replaces a matrix instruction and keeps the data flow from h to the sums.
_MATRIX = re.compile(r'asm volatile\(\s*"mma\.sync.*?\);', re.DOTALL)
_ADDITION = "c[0] += __uint_as_float(b0);"
# The generated equations: a name, the arguments, the body.
_POINTWISE = re.compile(
    r"(RNNC_INLINE void pointwise_(?:forward|backward)\()(.*?)(\) \{\n).*?(\n\}\n)", re.DOTALL
)


class ChangedKernelError(Exception):
    """The text of a kernel has changed, and this file does not find the part to replace."""


def without_product(source: Source) -> Source:
    """The source with an addition in place of each matrix instruction."""
    return _edited(source, lambda text: _MATRIX.subn(_ADDITION, text), "mma.sync")


def without_pointwise(source: Source) -> Source:
    """The source with sums in place of the cell's equations. It still reads every value."""
    return _edited(source, lambda text: _POINTWISE.subn(_sums, text), "pointwise_forward")


WITHOUT: dict[str, Callable[[Source], Source]] = {
    "product": without_product,
    "pointwise": without_pointwise,
}


def _sums(found: re.Match[str]) -> str:
    begin, arguments, brace, end = found.groups()
    words = [argument.split() for argument in arguments.replace("\n", " ").split(",")]
    given = [name for kind, name in words if kind == "real"]
    wanted = [name for kind, name in words if kind == "real&"]
    lines = []
    for i, name in enumerate(wanted):
        share = given[i :: len(wanted)] or [given[i % len(given)]]
        lines.append(f"  {name} = real(0.25) * ({' + '.join(share)});")
    return begin + arguments + brace + "\n".join(lines) + end


def _edited(source: Source, edit: Callable[[str], tuple[str, int]], what: str) -> Source:
    code, count = edit(source.code)
    headers = []
    for path, text in source.headers:
        text, found = edit(text)
        headers.append((path, text))
        count += found
    if not count:
        raise ChangedKernelError(f"found no {what} in the text of {type(source.plan).__name__}")
    return replace(source, code=code, headers=tuple(headers))
