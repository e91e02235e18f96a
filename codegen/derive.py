"""The adjoint of a cell's pointwise map: reverse mode, once, on expressions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom, BooleanFunction

from ..cellspec.cell import CellSpec
from ..cellspec.functions import TABLE, reciprocal
from ..cellspec.substitute import substitute
from ..cellspec.tracer import factored
from .linearity import linear
from .program import Program
from .schedule import schedule


@dataclass(frozen=True)
class Pointwise:
    """The element-wise part of a cell, forward and backward, for one unit.

    Attributes:
        cell: what it was derived from.
        forward: from gates, states, params to the new states, `<state>_next`, and to those saved
            values that are functions of a gate.
        backward: from the cotangents of the new states, `d_<state>_next`, and the saved values
            to the cotangents `d_<name>` of gates, previous states and params.
        saved: what the forward must keep for the backward: a gate's pre-activation by its name,
            or a function of it, `sigmoid_f`, where the backward needs no more of the gate. Where
            it can read a state instead, which is kept anyway, nothing is saved.
        reads: the previous states (by name) and new states (`<state>_next`) that it needs.
    """

    cell: CellSpec
    forward: Program
    backward: Program
    saved: tuple[str, ...]
    reads: tuple[str, ...]

    @cached_property
    def linear(self) -> bool:
        """Whether the backward is linear in the cotangents of the new states.

        Where it is not, as with `clip_gradient`, all that adds to a cotangent must be added before
        the backward maps it.
        """
        return linear(self.backward, [f"d_{s.name}_next" for s in self.cell.states])

    def __str__(self) -> str:
        return (
            f"{self.cell.name}: pointwise forward, {self.forward.operations} operations\n"
            f"{_indented(self.forward)}\n"
            f"backward, {self.backward.operations} operations;"
            f" needs {', '.join(self.saved) or 'nothing'} kept"
            f" and the states {', '.join(self.reads) or 'none'}\n"
            f"{_indented(self.backward)}"
        )


@lru_cache(maxsize=256)
def derive(cell: CellSpec, activations: bool = True) -> Pointwise:
    """Derive the pointwise programs of a cell.

    Args:
        cell: any valid cell.
        activations: whether the backward may be given a function of a gate where it needs no more
            of the gate; else it is given gates alone, which can be computed again from states.

    Returns:
        The forward map and its adjoint. The adjoint accumulates cotangents over the graph of
        distinct subexpressions, from the new states down (reverse mode), so its cost is a small
        multiple of the forward's, and it shares the forward's values.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.derive import derive
        >>> derive(rnnc.cells.elman).saved      # tanh' = 1 - h_next**2: no pre-activation needed
        ()
    """
    with factored():
        return _derive(cell, activations)


def _derive(cell: CellSpec, with_activations: bool) -> Pointwise:
    updates = [_with_reciprocals(u) for u in cell.updates]
    news = [sympy.Symbol(f"{s.name}_next") for s in cell.states]
    known = {u: new for u, new in zip(updates, news, strict=True) if not u.is_Atom}
    naming = {
        "constants": [c.name for c in cell.constants],
        "taken": [d.name for d in (*cell.gates, *cell.states, *cell.params)],
    }
    cotangents = [sympy.Symbol(f"d_{d.name}") for d in (*cell.gates, *cell.states, *cell.params)]
    definitions = {
        target: substitute(_with_reciprocals(value), known)
        for target, value in _adjoint(cell, updates, news).items()
    }
    activations = _activations(cell, definitions) if with_activations else {}
    definitions = {t: d.xreplace(activations) for t, d in definitions.items()}
    kept = list(activations.values())
    results = dict(zip(news, updates, strict=True)) | {s: a for a, s in activations.items()}
    forward = schedule(results, [*news, *kept], **naming)
    backward = schedule(definitions, cotangents, **naming)
    needed = {s.name for s in backward.inputs}
    values = {a.args[0].name: s.name for a, s in activations.items()}
    saved = [values.get(g.name, g.name) for g in cell.gates]
    reads = [*(s.name for s in cell.states), *map(str, news)]
    return Pointwise(
        cell=cell,
        forward=forward,
        backward=backward,
        saved=tuple(s for s in saved if s in needed),
        reads=tuple(r for r in reads if r in needed),
    )


def _activations(
    cell: CellSpec, definitions: dict[sympy.Symbol, sympy.Expr]
) -> dict[sympy.Expr, sympy.Symbol]:
    """The functions of one gate that the backward can be given in the gate's place.

    Saving sigmoid(f) instead of f takes the same room, and spares the backward the function.
    """
    names = {d.name for d in (*cell.gates, *cell.states, *cell.params, *cell.constants)}
    found: dict[sympy.Expr, sympy.Symbol] = {}
    for gate in (sympy.Symbol(g.name) for g in cell.gates):
        users = {
            node
            for definition in definitions.values()
            for node in sympy.preorder_traversal(definition)
            if gate in node.args
        }
        if len(users) != 1:
            continue
        (user,) = users
        name = f"{user.func.__name__}_{gate}"
        if user.func.__name__ in TABLE and user.args == (gate,) and name not in names:
            found[user] = sympy.Symbol(name)
    return found


def _with_reciprocals(expression: sympy.Expr) -> sympy.Expr:
    """Divide once, then multiply: b**-n becomes reciprocal(b)**n, whose adjoint reuses it."""
    return expression.replace(
        lambda e: isinstance(e, sympy.Pow) and e.exp.is_Integer and e.exp < 0,
        lambda e: reciprocal.of(e.base) ** (-e.exp),
    )


def _adjoint(
    cell: CellSpec, updates: list[sympy.Expr], news: list[sympy.Symbol]
) -> dict[sympy.Symbol, sympy.Expr]:
    """Each cotangent as an expression over the forward's subexpressions and other cotangents."""
    nodes = _topological(updates)
    contributions: dict[sympy.Basic, list[sympy.Expr]] = {node: [] for node in nodes}
    for update, new in zip(updates, news, strict=True):
        contributions[update].append(sympy.Symbol(f"d_{new}"))
    definitions: dict[sympy.Symbol, sympy.Expr] = {}
    for count, node in enumerate(reversed(nodes)):
        total = sympy.Add(*contributions[node])
        if total == 0 or node.is_Atom:
            continue
        if not total.is_Atom:
            # No cell has a name that starts with d_; a state's whole cotangent is worth a name.
            sums = [f"d_{n}_sum" for u, n in zip(updates, news, strict=True) if u == node]
            bound = sympy.Symbol(sums[0] if sums else f"d_{count}")
            definitions[bound] = total
            total = bound
        for argument, share in zip(node.args, _pull_back(node, total), strict=True):
            if share is not None and argument in contributions:
                contributions[argument].append(share)
    wanted = [*cell.gates, *cell.states, *cell.params]
    for declared in wanted:
        shares = contributions.get(sympy.Symbol(declared.name), [])
        definitions[sympy.Symbol(f"d_{declared.name}")] = sympy.Add(*shares)
    return definitions


def _topological(updates: list[sympy.Expr]) -> list[sympy.Basic]:
    """Distinct subexpressions that can carry a gradient, arguments before their users."""
    order: dict[sympy.Basic, None] = {}

    def visit(node: sympy.Basic) -> None:
        condition = isinstance(node, Relational | BooleanFunction | BooleanAtom)
        if node in order or node.is_Number or condition:
            return
        for argument in node.args:
            visit(argument)
        order[node] = None

    for update in updates:
        visit(update)
    return list(order)


def _pull_back(node: sympy.Expr, d: sympy.Expr) -> tuple[sympy.Expr | None, ...]:
    if isinstance(node, sympy.Add):
        return (d,) * len(node.args)
    if isinstance(node, sympy.Mul):
        others = [sympy.Mul(*node.args[:i], *node.args[i + 1 :]) for i in range(len(node.args))]
        return tuple(d * other for other in others)
    if isinstance(node, sympy.Pow):
        base, exponent = node.args
        return (d * exponent * base ** (exponent - 1), None)
    return TABLE[node.func.__name__].pullback(d, node, *node.args)


def _indented(program: Program) -> str:
    return "\n".join(f"  {statement}" for statement in program.statements)
