"""LaTeX of expressions, with time as an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..expression.node import Node, ordered
from ..expression.sharing import Loop, Named, Naming
from ..expression.spell import ATOM, POWER, PRODUCT, SIGN, SUM
from ..functions import TABLE
from ..noise.draw import Draw, argument_text
from ..stages.table import REDUCTIONS
from .words import needs_sign

_RELATIONS = {"<": "<", "<=": r"\leq", ">": ">", ">=": r"\geq", "==": "=", "!=": r"\neq"}


@dataclass(frozen=True)
class Letters:
    """LaTeX of names: gates, inputs and new states at time t, previous states at time t - 1."""

    gates: set[str]
    states: set[str]

    def letter(self, name: str) -> str:
        """A name without its time: a letter or Greek letter in italics, a word upright."""
        base, _, index = name.partition("_")
        shown = f"\\{base}" if base in _GREEK else base if len(base) == 1 else rf"\mathrm{{{base}}}"
        return rf"{shown}_{{\mathrm{{{index}}}}}".replace("_", "^", 1) if index else shown

    def timed(self, name: str) -> str:
        """A name with its time."""
        if name.endswith("_next"):
            return f"{self.letter(name[:-5])}_t"
        time = "_t" if name in self.gates else "_{t-1}" if name in self.states else ""
        return f"{self.letter(name)}{time}"


def latex_rows(
    left: Sequence[str], written: Naming, letters: Letters, order: Iterable[Named | Loop | int]
) -> Iterator[str]:
    """The rows of an `aligned` block: shared values, loops with the rows of a pass, results.

    Args:
        left: what the roots are assigned to.
        written: the values.
        letters: of names.
        order: statements of `written`, and places of its roots.
    """
    roots, named = _root_texts(written, letters), _latex_names(written, letters)
    for item in order:
        if isinstance(item, int):
            yield f"{left[item]} &= {roots[item]}"
        else:
            yield from _statement_rows(item, named, letters)


def draw_row(name: str, draw: Draw, letters: Letters) -> str:
    """The row of a drawn input.

    Args:
        name: of the input.
        draw: its distribution.
        letters: of names.
    """
    given = [letters.letter(a) if isinstance(a, str) else argument_text(a) for a in draw.arguments]
    once = r" \text{ once per sequence}" if draw.per == "sequence" else ""
    return rf"{letters.timed(name)} &\sim {draw.distribution.latex(*given)}{once}"


def _statement_rows(
    statement: Named | Loop, named: Mapping[Node, str], letters: Letters
) -> Iterator[str]:
    """The rows of a statement of a scope with such names."""
    if isinstance(statement, Named):
        yield f"{_shared(statement.name, letters)} &= {latex(statement.node, letters, named)}"
        return
    names = ", ".join(_shared(name, letters) for name in statement.names)
    starts = (named.get(start) or latex(start, letters, {}) for start in statement.starts)
    yield f"{names} &= {', '.join(starts)}"
    yield rf"&\text{{{statement.passes} times:}}"
    body, inside = statement.body, _latex_names(statement.body, letters)
    rows = (row for inner in body.statements for row in _statement_rows(inner, inside, letters))
    new = f"{names} &\\leftarrow {', '.join(_root_texts(body, letters))}"
    yield from (row.replace("&", r"&\quad ", 1) for row in (*rows, new))


def _root_texts(written: Naming, letters: Letters) -> list[str]:
    named = _latex_names(written, letters)
    return [named.get(root) or latex(root, letters, named) for root in written.roots]


def _latex_names(written: Naming, letters: Letters) -> Mapping[Node, str]:
    """The LaTeX of values with names, and of symbols of the cell that a body reads."""
    return written.named(lambda name: _shared(name, letters), letters.timed)


def _shared(name: str, letters: Letters) -> str:
    """The letter of a shared value: that of its variable, or v with the number of its name."""
    temporary = name[0] == "t" and name[1:].isdigit()
    return f"v_{{{name[1:]}}}" if temporary else letters.letter(name)


def latex(root: Node, letters: Letters, named: Mapping[Node, str]) -> str:
    """The LaTeX of an expression; nodes in `named` are written by their names."""
    texts: dict[Node, tuple[str, int]] = {}
    for node in ordered(root.args, stop=named):
        if node in named:
            texts[node] = named[node], ATOM
        else:
            texts[node] = _spelled(node, [texts[a] for a in node.args], letters)
    return _spelled(root, [texts[a] for a in root.args], letters)[0]


def _spelled(node: Node, args: list[tuple[str, int]], letters: Letters) -> tuple[str, int]:
    op = node.op
    if op == "symbol":
        return letters.timed(node.name), ATOM
    if op in ("number", "true", "false"):
        text = rf"\mathrm{{{op}}}" if node.value is None else repr(node.value)
        return text, SIGN if text[0] == "-" else ATOM
    if op == "call" and node.name == "pow":
        return rf"{_within(args[0], ATOM)}^{{{args[1][0]}}}", POWER
    if op == "call":
        inside = ", ".join(text for text, _ in args)
        return rf"{TABLE[node.name].latex}\left({inside}\right)", ATOM
    if op in ("gate", "units"):
        return _stage(node, [text for text, _ in args], letters), ATOM
    if op == "member":
        # A name may have an index, and LaTeX refuses a second one.
        together = args[0][0] if args[0][0].endswith(")") else rf"\left({args[0][0]}\right)"
        return rf"{together}_{{{int(str(node.value)) + 1}}}", ATOM
    if op == "**":
        return _power(node, args[0], letters), POWER
    if op == "/":
        return rf"\frac{{{args[0][0]}}}{{{args[1][0]}}}", PRODUCT
    if op == "*":
        left = _within(args[0], PRODUCT)
        right = _within(args[1], SIGN if node.args[1].op != "/" else PRODUCT, sign=False)
        sign = right[0].isdigit() or needs_sign(node.args[0], node.args[1], _GREEK)
        dot = r" \cdot " if sign else " "
        return f"{left}{dot}{right}", PRODUCT
    if op in ("+", "-"):
        left, right = _within(args[0], SUM), _within(args[1], PRODUCT, sign=False)
        return f"{left} {op} {right}", SUM
    if op == "neg":
        return f"- {_within(args[0], PRODUCT, sign=False)}", PRODUCT
    if op == "~":
        return rf"\neg {_within(args[0], ATOM)}", POWER
    if op in ("&", "|"):
        word = r"\wedge" if op == "&" else r"\vee"
        return f"{_within(args[0], POWER)} {word} {_within(args[1], POWER)}", PRODUCT
    return f"{args[0][0]} {_RELATIONS[op]} {args[1][0]}", SUM


def _stage(node: Node, args: list[str], letters: Letters) -> str:
    """The LaTeX of a called gate, or of a reduction, whose eps is not shown."""
    if node.op == "gate":
        return rf"{letters.letter(node.name)}_t\left({args[0]}\right)"
    row = REDUCTIONS[node.name]
    return rf"{row.latex}\left({', '.join(args[1:] if row.is_norm else args)}\right)"


def _power(node: Node, base: tuple[str, int], letters: Letters) -> str:
    inner = node.args[0]
    if inner.op == "call" and base[0].endswith(r"\right)"):
        name = TABLE[inner.name].latex
        return rf"{name}^{{{node.value}}}{base[0][len(name) :]}"
    return rf"{_within(base, ATOM)}^{{{node.value}}}"


def _within(part: tuple[str, int], at_least: int, sign: bool = True) -> str:
    text, binding = part
    fits = binding >= at_least and (sign or text[0] != "-")
    return text if fits else rf"\left({text}\right)"


_GREEK = frozenset(
    """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau
    upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega""".split()
)
