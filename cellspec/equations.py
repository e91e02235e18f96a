"""A cell's equations for people: as text and as LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy.printing.latex import LatexPrinter

from .functions import TABLE
from .substitute import substitute
from .text import to_text

if TYPE_CHECKING:
    from .cell import CellSpec


def equation_lines(cell: CellSpec) -> tuple[str, ...]:
    """A line for each gate, then one for each state, each after those that it refers to."""
    lines = []
    for gate in cell.gates:
        terms = [f"x_{gate.name}"] if gate.input else []
        dense = [p for p in cell.dense_pairs if p.gate == gate.name]
        diagonal = [p for p in cell.diagonal_pairs if p.gate == gate.name]
        for p in dense:
            terms.append(f"{_weight('R', p.gate, p.source, len(dense))} {p.source}")
        for p in diagonal:
            terms.append(f"{_weight('u', p.gate, p.source, len(diagonal))} * {p.source}")
        if gate.bias:
            terms.append(f"b_{gate.name}")
        lines.append(f"{gate.name} = {' + '.join(terms)}")
    for name, update in _by_reference(cell):
        marked = {s: sympy.Symbol(s.name[:-5] + "'") for s in update.free_symbols if _is_new(s)}
        lines.append(f"{name}' = {to_text(substitute(update, marked))}")
    return tuple(lines)


def latex_block(cell: CellSpec) -> str:
    """The same equations as an `aligned` block."""
    printer = _CellLatexPrinter(cell)
    rows = []
    for gate in cell.gates:
        name = printer.letter(gate.name)
        terms = [rf"W_{{{name}}} x_t"] if gate.input else []
        for pairs, weight, product in (
            (cell.dense_pairs, "R", " "),
            (cell.diagonal_pairs, "u", r" \odot "),
        ):
            own = [p for p in pairs if p.gate == gate.name]
            for p in own:
                index = name if len(own) == 1 else f"{name},{printer.letter(p.source)}"
                terms.append(rf"{weight}_{{{index}}}{product}{printer.letter(p.source)}_{{t-1}}")
        if gate.bias:
            terms.append(f"b_{{{name}}}")
        rows.append(f"{name}_t &= {' + '.join(terms)}")
    rows += [
        f"{printer.letter(name)}_t &= {printer.doprint(value)}"
        for name, value in _by_reference(cell)
    ]
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _by_reference(cell: CellSpec) -> list[tuple[str, sympy.Expr]]:
    """Each state's new value over the other new values that it contains; those come first."""
    news = {
        update: sympy.Symbol(f"{state.name}_next")
        for state, update in zip(cell.states, cell.updates, strict=True)
        if not update.is_Atom
    }
    short: list[tuple[str, sympy.Expr]] = []
    for state, update in zip(cell.states, cell.updates, strict=True):
        others = {other: new for other, new in news.items() if other != update}
        short.append((state.name, substitute(update, others)))
    # A new value contains only smaller ones, so their sizes order them.
    sizes = {s.name: sympy.count_ops(u) for s, u in zip(cell.states, cell.updates, strict=True)}
    return sorted(short, key=lambda row: sizes[row[0]])


def _is_new(symbol: sympy.Symbol) -> bool:
    return bool(symbol.name.endswith("_next"))


def _weight(letter: str, gate: str, source: str, count: int) -> str:
    return f"{letter}_{gate}" if count == 1 else f"{letter}_{gate},{source}"


class _CellLatexPrinter(LatexPrinter):  # type: ignore[misc]
    """Names with their time: gates and new states at t, previous states at t - 1."""

    def __init__(self, cell: CellSpec) -> None:
        super().__init__({"fold_short_frac": False})
        self._gates = {g.name for g in cell.gates}
        self._states = {s.name for s in cell.states}

    def letter(self, name: str) -> str:
        """A name as LaTeX: one letter or a Greek name as it is, a word upright."""
        base, _, index = name.partition("_")
        shown = f"\\{base}" if base in _GREEK else base if len(base) == 1 else rf"\mathrm{{{base}}}"
        return rf"{shown}_{{\mathrm{{{index}}}}}".replace("_", "^", 1) if index else shown

    def _print_Symbol(self, expr: sympy.Symbol, style: str = "plain") -> str:
        name = str(expr.name)
        if _is_new(expr):
            return f"{self.letter(name[:-5])}_t"
        time = "_t" if name in self._gates else "_{t-1}" if name in self._states else ""
        return f"{self.letter(name)}{time}"

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))

    def _print_Function(self, expr: sympy.Function, exp: str | None = None) -> str:
        arguments = ", ".join(map(self._print, expr.args))
        text = rf"{TABLE[expr.func.__name__].latex}\left({arguments}\right)"
        return text if exp is None else rf"{text}^{{{exp}}}"


_GREEK = frozenset(
    """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau
    upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega""".split()
)
