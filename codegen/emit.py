"""C++ text of expressions, which is legal CUDA too, over one scalar type, `real`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from ..cellspec.elementwise import ElementwiseFunction
from ..cellspec.expression.graph import calls
from ..cellspec.expression.node import Node, ordered
from ..cellspec.expression.spell import ATOM, PRODUCT, Form, spell
from ..cellspec.functions import TABLE
from .program import Program, assignments, values_of
from .shape import Dtype

# The functions whose names no value of a cell has.
_RESERVED = [name for name, row in TABLE.items() if not row.free_name]
# One lower-case letter with what `derive` and `schedule` add to a name, and their temporaries. A
# value such as `floor_g` ends with an underscore: a name of a cell always did.
_SHORT = re.compile(rf"(d_)?(({'|'.join(_RESERVED)})_)?[a-z](_next)?(_sum)?|t\d+")

#: The most copies of functions in a program, where copies are long. The others are called.
MOST_COPIES = 400
#: The same of functions with a loop for large arguments, in every dtype: 500 copies of `sin` took
#: NVRTC two minutes.
MOST_COPIES_OF_LOOPS = 50
#: The same of all functions in double precision: 1,180 statements with 400 of them took NVRTC 16 s,
#: and take 5 s where they are called.
MOST_COPIES_OF_DOUBLES = 50
#: The most uses of functions in a program that is one function, if it calls several of them; also
#: the most calls times the number of functions that are called. See `emit_pieces`.
MOST_CALLS = 1000
#: The fewest functions that a program in pieces calls. With one, pieces take NVRTC longer: a chain
#: of 2,000 `tanh` 10 to 15 s instead of 5 s, as a piece stores and loads what it hands on.
FEWEST_CALLED = 2
# Functions of the headers that are one instruction. Others are many, some with branches.
_INSTRUCTIONS = frozenset({"abs", "ceil", "floor", "round", "trunc"})
# Dtypes of two bytes, whose functions and divisions are approximations, a few instructions each.
_APPROXIMATE = ("bfloat16", "float16")
_LOOPS = frozenset({"sin", "cos", "tan", "atan2", "fmod", "pow"})

#: The first number that rounds to an infinite float.
_BEYOND_FLOAT = 2.0**128 - 2.0**103


def spelled(name: str) -> str:
    """Return the C++ name of a value: no macro, keyword or function of a compiler's headers.

    A name of one lower-case letter stays, also with what rnnc adds to it, such as `d_h_next` or
    `tanh_z`. Any other name ends with an underscore. The headers define no name of either form.

    Args:
        name: as the cell's author wrote it, or made from such a name.

    Example:
        >>> from rnnc.codegen.emit import spelled
        >>> [spelled(name) for name in ("h", "sigmoid_f", "RAND_MAX", "d_alpha")]
        ['h', 'sigmoid_f', 'RAND_MAX_', 'd_alpha_']
    """
    return name if _SHORT.fullmatch(name) else f"{name}_"


def cpp(value: Node, name: Callable[[str], str] = spelled) -> str:
    """Write an expression in C++: numbers as `real`, powers as products.

    It keeps the author's order and grouping, and so does the C++ compiler.

    Args:
        value: the expression.
        name: gives the C++ text of a symbol's name.
    """
    return spell(value, _CPP if name is spelled else replace(_CPP, name=name))


def cpp_of_piece(value: Node) -> str:
    """Write an expression in C++ as `cpp` does, but with calls of `divide`.

    A division is a function too, with a branch for subnormal numbers: 300 of them in float64 took
    NVRTC 3.6 s, copied into the pieces of a long program.

    Args:
        value: the expression.
    """
    return spell(value, _CPP_OF_PIECE)


def literal(value: float) -> str:
    """A number of type `real`; beyond the range of `real` it is infinite."""
    text = repr(value)
    return f"real({text})" if abs(value) < _BEYOND_FLOAT else f"rnnc::literal({text})"


def _power(base: Node, text: str, exponent: int) -> tuple[str, int]:
    if base.is_symbol and exponent in (2, 3):
        return "*".join([text] * exponent), PRODUCT
    inner = text if base.is_leaf or text[0] != "(" else text[1:-1]
    if exponent > 0:
        return f"power<{exponent}>({inner})", ATOM
    return f"power<{-exponent}>(real(1)/{text})", ATOM


_CPP = Form(
    lambda value: (literal(value), ATOM),
    _power,
    {"&": "&&", "|": "||", "~": "!", "true": "true", "false": "false"},
    # Compilers fuse a product and a difference into one instruction, which rounds once. If x is a
    # product, x - x would then be its rounding error. This text is always zero or NaN.
    cancel="{}*real(0) + real(0)",
    name=spelled,
    function=lambda name: TABLE[name].cpp_name,
)
_CPP_OF_PIECE = replace(_CPP, divide="divide")


def emit_used_functions(programs: Iterable[Program], provided: frozenset[str] = frozenset()) -> str:
    """Inline C++ of the table's functions that the programs call and no header has.

    Args:
        programs: the programs.
        provided: functions that the target's header has in a better form than the table.
    """
    used = _used_rows(programs)
    written = [f for f in used if f.cpp and f.name not in provided]
    lines = [_emit_row(f) for f in written if not f.free_name]
    spaced = [_emit_row(f) for f in written if f.free_name]
    if spaced:
        lines += ["namespace fn {", *spaced, "}  // namespace fn"]
    return "\n".join(lines)


def emit_called_functions(program: Program, dtype: Dtype) -> str:
    """C++ functions that hide those which a program uses very often, and are called.

    A compiler writes each use of an inline function out. With thousands of branches, allocating
    registers takes a time that grows faster than their number.

    Args:
        program: the program, whose function is to be written into the same namespace.
        dtype: of the elements. Functions of two-byte elements are approximations, which are short.

    Returns:
        The text; empty if there are none. A program in pieces that divides has `divide` too,
        which is inline where divisions are approximations.
    """
    rows = [TABLE[name] for name in _called(program, dtype)]
    lines = [_emit_call(f) for f in rows if not f.free_name]
    if calls_very_often(program, dtype) and _divides(program):
        kind = "RNNC_INLINE" if dtype in _APPROXIMATE else "__device__ __noinline__"
        lines.append(f"{kind} real divide(real a, real b) {{ return a/b; }}")
    spaced = [_emit_call(f) for f in rows if f.free_name]
    if spaced:
        lines += ["namespace fn {", "using namespace rnnc::fn;", *spaced, "}  // namespace fn"]
    return "\n".join(lines)


def calls_very_often(program: Program, dtype: Dtype) -> bool:
    """Return True if a program calls functions so often that a compiler takes long.

    Args:
        program: with the calls that `emit_called_functions` writes.
        dtype: of the elements.
    """
    called = _called(program, dtype)
    uses = _uses(program).values()
    calls = max(len(called) * sum(called.values()), sum(uses))
    return len(called) >= FEWEST_CALLED and calls > MOST_CALLS


def _called(program: Program, dtype: Dtype) -> dict[str, int]:
    """The functions that are called, in the table's order, and how often: the most used ones."""
    uses = _uses(program)
    lengths = {name: uses[name] * _length(TABLE[name], dtype) for name in TABLE if uses[name]}
    copied = sum(lengths.values())
    called = set()
    for name in sorted(lengths, key=lambda name: -lengths[name]):
        if copied > MOST_COPIES and lengths[name]:
            called.add(name)
            copied -= lengths[name]
    return {name: uses[name] for name in lengths if name in called}


def _divides(program: Program) -> bool:
    """Return True if a program divides by something that is no number."""
    values = (statement.value for statement in assignments(program.statements))
    return any(
        n.op == "/" and n.args[1].op != "number" for value in values for n in ordered([value])
    )


def _uses(program: Program) -> Counter[str]:
    """Return how often a program uses each function."""
    values = (statement.value for statement in assignments(program.statements))
    return Counter(n.name for value in values for n in ordered([value]) if n.op == "call")


def _length(function: ElementwiseFunction, dtype: Dtype) -> float:
    """Return the length of a function's code, of which 1 counts; 0 for some instructions."""
    inside = _inside(function)
    if not _LOOPS.isdisjoint(inside):
        return MOST_COPIES / MOST_COPIES_OF_LOOPS
    if inside <= _INSTRUCTIONS or dtype in _APPROXIMATE:
        return 0
    return MOST_COPIES / MOST_COPIES_OF_DOUBLES if dtype == "float64" else 1


def _inside(function: ElementwiseFunction) -> set[str]:
    """Return the functions of a target's header that a function is made of."""
    if not function.cpp:
        return {function.name}
    rows = (TABLE[name] for name in re.findall(r"\w+", function.cpp) if name in TABLE)
    return {name for row in rows for name in _inside(row)}


def _emit_call(function: ElementwiseFunction) -> str:
    parameters = ", ".join(f"real {a}" for a in function.arguments)
    arguments = ", ".join(function.arguments)
    name = f"rnnc::{function.cpp_name}"
    head = f"__device__ __noinline__ real {function.name}({parameters})"
    return f"{head} {{ return {name}({arguments}); }}"


def needs_more_functions(programs: Iterable[Program]) -> bool:
    """Return True if the programs call a function of the header of the namespace `fn`."""
    return any(f.free_name for f in _used_rows(programs))


def _used_rows(programs: Iterable[Program]) -> list[ElementwiseFunction]:
    used = calls(value for program in programs for value in values_of(program.statements))
    return [f for name, f in TABLE.items() if name in used]


def _emit_row(function: ElementwiseFunction) -> str:
    parameters = ", ".join(
        f"bool {a}" if a == "condition" else f"real {a}" for a in function.arguments
    )
    return f"RNNC_INLINE real {function.name}({parameters}) {{ return {function.cpp}; }}"
