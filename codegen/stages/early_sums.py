"""Sums of a backward that do not wait for other sums.

What a norm of gates sums over the units is linear in the sums of a norm behind it: each unit has
`own + s * factor`, where `s` is a sum of all units. Its mean is the mean of `own` plus `s` times
the mean of `factor`, and these two wait for nothing. So both norms take one exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ...cellspec.expression.graph import rewritten
from ...cellspec.expression.node import Node, call, number, ordered, symbol
from .cotangents import returned
from .exchange import Product, Statistic
from .rounds import in_rounds, symbol_names

#: Factors are exchanged too. With the eight of layer_norm_lstm its kernels spilled, or had room for
#: smaller heads.
_MOST_FACTORS = 4
_ONE = number(1)


@dataclass
class EarlySums:
    """The exchanges of a backward, after sums that waited for others were replaced.

    Attributes:
        gradients: by the name of a gate, state, parameter or number, its gradient; also what the
            new sums read. They read the new sums.
        exchanges: each after those that it reads.
        beside: by what a factor's sum reads, the name of a gradient of the same exchange.
    """

    gradients: dict[str, Node]
    exchanges: list[Product | Statistic] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)

    def reads(self, exchanged: Product | Statistic) -> list[Node]:
        """The values that an exchange reads, or waits for.

        Args:
            exchanged: one of the exchanges.
        """
        if isinstance(exchanged, Product):
            return [self.gradients[exchanged.gate]]
        names = [name.removeprefix("d_") for name in exchanged.reads]
        names += [self.beside[name] for name in names if name in self.beside]
        return [self.gradients[name] for name in names]


def backward_sums(
    exchanges: Iterable[Product | Statistic], gradients: Mapping[str, Node], *, early: bool
) -> EarlySums:
    """The exchanges of a backward, and what they read.

    Args:
        exchanges: of a backward, each after those that it reads.
        gradients: by the name of a gate, state, parameter or number of a head.
        early: whether sums that wait for other sums are replaced, where that leaves fewer
            exchanges.
    """
    plain = EarlySums(dict(gradients), list(exchanges))
    if not early:
        return plain
    found, factors = _replaced(plain)
    fewer = _rounds(found) < _rounds(plain)
    return found if fewer and factors <= _MOST_FACTORS else plain


def _rounds(of: EarlySums) -> int:
    sources = {name: each for each in of.exchanges for name in each.gives_back}
    return len(in_rounds(of.exchanges, of.reads, sources))


def _replaced(plain: EarlySums) -> tuple[EarlySums, int]:
    """The same with sums whose own parts are known earlier, and the number of factors in them."""
    found = EarlySums(dict(plain.gradients))
    factors = 0
    rounds: dict[str, int] = {}  # of what an exchange gives back
    sums: dict[str, Node] = {}  # by what a replaced sum was, what it is now
    read_by: dict[str, str] = {}  # by a sum, the number of a head whose gradients it adds
    for each in plain.exchanges:
        own = _name_read(each)
        value = plain.gradients[own]
        read = symbol_names([value])
        waits_for = [name for name in read_by if name in read]
        last = _round_after([value], rounds)
        form = None
        if isinstance(each, Statistic) and waits_for:
            form = _linear_form(value, waits_for)
        if form is None or _first_round(form, waits_for, rounds) >= last:
            found.exchanges.append(each)
            rounds |= dict.fromkeys(each.gives_back, last)
        else:
            assert isinstance(each, Statistic)
            (name,) = each.names
            sums[name] = _replace(found, each, own, form, [read_by[n] for n in waits_for])
            rounds[name] = _first_round(form, waits_for, rounds)
            factors += len(form.factors)
        if isinstance(each, Statistic):
            read_by |= dict.fromkeys(each.names, own)
    # A replaced sum may stand in another one's replacement, which comes after it.
    known: dict[Node, Node] = {}
    for name, value in sums.items():
        known[symbol(name)] = rewritten([value], known)[0]
    values = rewritten(found.gradients.values(), known)
    found.gradients = dict(zip(found.gradients, values, strict=True))
    return found, factors


def _name_read(exchanged: Product | Statistic) -> str:
    """The name of the gradient that an exchange of a backward reads."""
    if isinstance(exchanged, Product):
        return exchanged.gate
    (argument,) = exchanged.reads
    return argument.removeprefix("d_")


def _round_after(values: Iterable[Node], rounds: Mapping[str, int]) -> int:
    return 1 + max((rounds.get(name, -1) for name in symbol_names(values)), default=-1)


@dataclass(frozen=True)
class _Form:
    """A value that is linear in some sums: its part without them, and the factor of each."""

    own: Node | None
    factors: Mapping[str, Node]


def _first_round(form: _Form, waits_for: list[str], rounds: Mapping[str, int]) -> int:
    """The round in which the parts of a value may be summed: with the sums that it waited for."""
    own = [] if form.own is None else [form.own]
    after = _round_after([*own, *form.factors.values()], rounds)
    return max(after, *(rounds[name] for name in waits_for))


def _replace(found: EarlySums, each: Statistic, own: str, form: _Form, numbers: list[str]) -> Node:
    """Sum the parts of a value in place of the value, and return what gives its sum."""
    del found.gradients[own]
    terms: list[Node] = []
    beside = numbers[0]

    def add(wish: str, value: Node) -> Node:
        name = wish
        while name in found.gradients:
            name += "_"
        found.gradients[name] = value
        if name != beside:
            found.beside[name] = beside
        found.exchanges.append(Statistic(each.kind, (returned(name),), (f"d_{name}",)))
        return symbol(returned(name))

    if form.own is not None:
        name = f"{own}_own"
        terms.append(add(name, form.own))
    for (waited, factor), other in zip(form.factors.items(), numbers, strict=True):
        terms.append(symbol(waited) * add(f"{own}_per_{other}", factor))
    total, *rest = terms
    for term in rest:
        total = total + term
    return total


def _linear_form(value: Node, names: list[str]) -> _Form | None:
    """A value as one that is linear in symbols; None if its operations do not show that."""
    forms: dict[Node, _Form] = {}
    for node in ordered([value]):
        args = [forms[a] for a in node.args]
        if node.is_symbol and node.name in names:
            forms[node] = _Form(None, {node.name: _ONE})
        elif not any(a.factors for a in args):
            forms[node] = _Form(node, {})
        else:
            form = _combined(node, args)
            if form is None:
                return None
            forms[node] = form
    found = forms[value]
    return _Form(found.own, {name: found.factors[name] for name in names if name in found.factors})


def _combined(node: Node, args: list[_Form]) -> _Form | None:
    """The form of an operation on values of which one or more have factors."""
    match node.op:
        case "+":
            return _merged(args, _sum)
        case "-":
            return _merged(args, lambda a, b: _sum(a, None if b is None else -b))
        case "neg":
            return _mapped(args[0], lambda a: -a)
        case "*" if not args[1].factors:
            return _mapped(args[0], lambda a: _product(a, node.args[1]))
        case "*" if not args[0].factors:
            return _mapped(args[1], lambda b: _product(node.args[0], b))
        case "/" if not args[1].factors:
            return _mapped(args[0], lambda a: a / node.args[1])
        case "call" if node.name == "where" and not args[0].factors:
            return _merged(args[1:], lambda a, b: _chosen(node.args[0], a, b))
    return None


def _mapped(form: _Form, of: Callable[[Node], Node]) -> _Form:
    own = None if form.own is None else of(form.own)
    return _Form(own, {name: of(factor) for name, factor in form.factors.items()})


def _merged(forms: list[_Form], of: Callable[[Node | None, Node | None], Node | None]) -> _Form:
    """The form of an operation on two; None stands for 0."""
    first, second = forms
    factors = {
        name: of(first.factors.get(name), second.factors.get(name))
        for name in {**first.factors, **second.factors}
    }
    return _Form(of(first.own, second.own), {n: f for n, f in factors.items() if f is not None})


def _sum(a: Node | None, b: Node | None) -> Node | None:
    return b if a is None else a if b is None else a + b


def _product(a: Node, b: Node) -> Node:
    return b if a is _ONE else a if b is _ONE else a * b


def _chosen(condition: Node, a: Node | None, b: Node | None) -> Node | None:
    if a is None and b is None:
        return None
    zero = number(0)
    return call("where", condition, zero if a is None else a, zero if b is None else b)
