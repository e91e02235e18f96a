"""Programs as C++ that is legal CUDA too, over one scalar type, `real`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom, BooleanFunction
from sympy.printing.cxx import CXX17CodePrinter
from sympy.printing.precedence import PRECEDENCE

from ..cellspec.declare import Constant
from ..cellspec.elementwise import ElementwiseFunction
from ..cellspec.functions import TABLE
from ..cellspec.tracer import factored
from .program import Program, symbols_of

NBSP = "\N{NO-BREAK SPACE}"


class CppPrinter(CXX17CodePrinter):  # type: ignore[misc]
    """Expressions in C++: every number a `real`, powers as products, functions by their name."""

    def _print_Float(self, expr: sympy.Float) -> str:
        return f"real({float(expr)!r})"

    def _print_Integer(self, expr: sympy.Integer) -> str:
        return f"real({int(expr)})"

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return f"real({float(expr)!r})"

    _print_NegativeOne = _print_Zero = _print_One = _print_Integer
    _print_Half = _print_Rational

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return str(expr.name)

    def _print_Pow(self, expr: sympy.Pow) -> str:
        exponent = int(expr.exp)
        if expr.base.is_Symbol and exponent in (2, 3):
            return "*".join([self._print(expr.base)] * exponent)
        return f"power<{exponent}>({self._print(expr.base)})"

    def _print_Mul(self, expr: sympy.Mul) -> str:
        if expr.as_coeff_Mul()[0] < 0:
            with factored():
                positive = -expr
            return f"-{self.parenthesize(positive, PRECEDENCE['Mul'], strict=True)}"
        numerator, denominator = [], []
        for factor in expr.args:
            if factor.func.__name__ == "reciprocal":
                denominator.append(self.parenthesize(factor.args[0], PRECEDENCE["Pow"]))
            else:
                numerator.append(self.parenthesize(factor, PRECEDENCE["Mul"], strict=True))
        text = "*".join(numerator or ["real(1)"])
        return text + "".join(f"/{d}" for d in denominator)

    def _print_Function(self, expr: sympy.Function) -> str:
        return f"{expr.func.__name__}({', '.join(map(self._print, expr.args))})"

    def _print_Relational(self, expr: Relational) -> str:
        return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

    def _print_And(self, expr: sympy.And) -> str:
        return "(" + " && ".join(sorted(map(self._print, expr.args))) + ")"

    def _print_Or(self, expr: sympy.Or) -> str:
        return "(" + " || ".join(sorted(map(self._print, expr.args))) + ")"

    def _print_Not(self, expr: sympy.Not) -> str:
        return f"!{self._print(expr.args[0])}"


def emit_function(
    name: str, program: Program, arguments: Iterable[str], constants: Iterable[Constant]
) -> str:
    """A program as an inline C++ function: values in, references out.

    Args:
        name: the function's name.
        program: what it computes.
        arguments: the names of its inputs in order; those that the program does not use stay, so
            that every cell's function is called in the same way.
        constants: the cell's numbers; those in use are declared in the function.

    Returns:
        Its text, the same to the byte in every process.
    """
    printer = CppPrinter()
    outputs = {o.name for o in program.outputs}
    parameters = [f"real {a}" for a in arguments] + [f"real& {o}" for o in program.outputs]
    # A space that does not break keeps a type with its name.
    head = f"RNNC_INLINE void {name}({', '.join(p.replace(' ', NBSP) for p in parameters)}) {{"
    wrapped = textwrap.wrap(head, width=100, subsequent_indent="    ", break_long_words=False)
    lines = [line.replace(NBSP, " ") for line in wrapped]
    used = {s.name for s in symbols_of(s.value for s in program.statements)}
    for constant in constants:
        if constant.name in used:
            lines.append(f"  constexpr real {constant.name} = real({constant.value!r});")
    for statement in program.statements:
        target = statement.target.name
        boolean = isinstance(statement.value, Relational | BooleanFunction | BooleanAtom)
        kind = "" if target in outputs else "const bool " if boolean else "const real "
        lines.append(f"  {kind}{target} = {printer.doprint(statement.value)};")
    return "\n".join([*lines, "}"])


def emit_used_functions(programs: Iterable[Program], provided: frozenset[str] = frozenset()) -> str:
    """The table's functions that the programs call, as inline C++; the rest is in the header.

    Args:
        programs: what calls them.
        provided: rows that the target's own header spells better than the table does.
    """
    used = {
        call.func.__name__
        for program in programs
        for statement in program.statements
        for call in statement.value.atoms(sympy.Function)
    }
    used -= provided
    return "\n".join(_emit_row(f) for name, f in TABLE.items() if name in used and f.cpp)


def _emit_row(function: ElementwiseFunction) -> str:
    parameters = ", ".join(
        f"bool {a}" if a == "condition" else f"real {a}" for a in function.arguments
    )
    return f"RNNC_INLINE real {function.name}({parameters}) {{ return {function.cpp}; }}"
