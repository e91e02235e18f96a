"""Draws a random cell: declarations with any options in any order, and a body that uses them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .grammar import Grammar
from .tree import CellDraw, GateDraw, InputDraw, Node, ValueDraw, call, name, number

# Letters and words; generated code might use some of them itself, and some are functions.
_NAMES = """a b c e f g h i j k m n o p q r s u w x y z A B Z alpha beta zeta gain decay slow_rate
row head dim keep steps batch width kept lane warp before after offset x1 h2 u_n input weight biases
gate state unit tile sum zero floor round mish""".split()

# The names of the operands of functions with several.
_OPERANDS = {
    "leaky_relu": ("x", "slope"),
    "elu": ("x", "alpha"),
    "maximum": ("a", "b"),
    "minimum": ("a", "b"),
    "clip": ("x", "low", "high"),
    "where": ("condition", "a", "b"),
    "clip_gradient": ("x", "bound"),
    "with_gradient": ("value", "of"),
}


def draw_cell(random: Random, apart: bool, half: bool, exact_inputs: bool) -> CellDraw:
    """Draw a cell.

    Args:
        random: the source of all choices.
        apart: whether the operands of comparisons are kept apart.
        half: whether numbers must stay in the range of float16.
        exact_inputs: whether a gate's share of the input can be an exact number.
    """
    names = random.sample(_NAMES, len(_NAMES))
    states = [
        ValueDraw(names.pop(), _start(random)) for _ in range(_count(random, [4, 4, 2, 1, 1]))
    ]
    gates = [_gate(random, names.pop(), states) for _ in range(_gates(random))]
    params = [ValueDraw(names.pop(), _start(random)) for _ in range(random.choice([0, 0, 1, 2, 3]))]
    constants = [
        ValueDraw(names.pop(), random.choice([0.05, -0.7, 1.0, 2.0, 0.3]))
        for _ in range(random.choice([0, 0, 1, 2]))
    ]
    if apart or random.random() < 0.2:
        if exact_inputs and random.random() < 0.5:
            gates.append(GateDraw(names.pop(), recurrent=False, bias=False, switch=True))
        else:
            params.append(ValueDraw(names.pop(), 1.0, switch=True))
    random.shuffle(gates)
    random.shuffle(params)
    everything: list[GateDraw | ValueDraw] = [*gates, *states, *params, *constants]
    declared = [d.name for d in everything]
    switches = [d.name for d in everything if d.switch]
    grammar = Grammar(random, declared, switches, apart, half)
    body = _body(random, grammar, gates, states, declared)
    order = declared.copy()
    random.shuffle(order)

    def in_order(group: list) -> tuple:  # type: ignore[type-arg]
        return tuple(sorted(group, key=lambda d: order.index(d.name)))

    return CellDraw(
        in_order(gates), in_order(states), in_order(params), in_order(constants), tuple(order), body
    )


def with_inputs(random: Random, cell: CellDraw) -> CellDraw:
    """The cell with inputs that no weight multiplies in place of some of its params.

    Args:
        random: the source of all choices.
        cell: without inputs.
    """
    chosen = [p for p in cell.params if random.random() < 0.35]
    forms = ("full", "rows", "rows", "steps", "units")
    inputs = tuple(InputDraw(p.name, random.choice(forms), p.switch) for p in chosen)
    params = tuple(p for p in cell.params if p not in chosen)
    return replace(cell, params=params, inputs=inputs)


def with_draws(random: Random, cell: CellDraw, scanned: bool) -> CellDraw:
    """The cell with some inputs that calls may draw.

    Args:
        random: the source of all choices.
        cell: without them.
        scanned: whether its call is a scan, which draws them: a value for each step and unit.
    """
    choices: list[tuple[str, tuple[float, ...]]] = [
        ("bernoulli", (round(random.random(), 2),)),
        ("uniform", (-1.5, round(random.uniform(-1, 1.5), 2))),
        ("normal", (round(random.uniform(-1, 1), 2), round(random.random(), 2))),
    ]
    inputs = []
    for given in cell.inputs:
        if not given.switch and random.random() < 0.5:
            form = "full" if scanned else given.form
            given = replace(given, draw=random.choice(choices), form=form)
        inputs.append(given)
    return replace(cell, inputs=tuple(inputs))


def with_keywords(random: Random, cell: CellDraw) -> CellDraw:
    """The cell with some operands of functions written with their names.

    Args:
        random: the source of all choices.
        cell: without keywords.
    """

    def named(node: Node) -> Node:
        keywords: tuple[str, ...] = ()
        if node.op in _OPERANDS and random.random() < 0.3:
            words = _OPERANDS[node.op][: len(node.args)]
            keywords = words[random.randrange(len(words)) :]
        return replace(node, args=tuple(map(named, node.args)), keywords=keywords)

    return replace(cell, body=tuple((target, named(value)) for target, value in cell.body))


def _count(random: Random, weights: list[int]) -> int:
    return random.choices(range(1, len(weights) + 1), weights)[0]


def _gates(random: Random) -> int:
    return random.choices(range(7), [1, 8, 10, 8, 6, 3, 2])[0]


def _start(random: Random) -> float:
    return random.choice([0.0, 0.0, 1.0, -0.5, 0.3])


def _gate(random: Random, word: str, states: list[ValueDraw]) -> GateDraw:
    recurrent = random.choices([True, "diagonal", False], [5, 3, 2])[0]
    source: tuple[str, ...] = ()
    if recurrent and random.random() < 0.5:
        known = [s.name for s in states]
        source = tuple(random.sample(known, random.randint(1, min(3, len(known)))))
    takes_input = not recurrent or random.random() < 0.7
    return GateDraw(word, takes_input, recurrent, random.random() < 0.65, source)  # type: ignore[arg-type]


def _body(
    random: Random,
    grammar: Grammar,
    gates: list[GateDraw],
    states: list[ValueDraw],
    declared: list[str],
) -> tuple[tuple[str, Node], ...]:
    body: list[tuple[str, Node]] = []
    whole: set[Node] = set()
    for i in range(random.choice([0, 1, 1, 2, 3])):
        body.append((f"v{i}", grammar.expression(random.choice([1, 2, 3]))))
        # A named value is used more than once.
        grammar.leaves += [f"v{i}"] * 3
    for state in random.sample(states, len(states)):
        update = _update(random, grammar, gates, states, state, body)
        if update in whole:
            update = call("+", call("tanh", update), call("*", number(0.25), name(state.name)))
        whole.add(update)
        body.append((f"new_{state.name}", update))
        grammar.leaves += [f"new_{state.name}"] * 2
    return with_all(random, body, [s.name for s in states], declared)


def _update(
    random: Random,
    grammar: Grammar,
    gates: list[GateDraw],
    states: list[ValueDraw],
    state: ValueDraw,
    body: list[tuple[str, Node]],
) -> Node:
    """The new value of a state; in nearly all cases, errors do not grow from step to step."""
    own, depth, chance = name(state.name), random.choice([1, 2, 3, 4]), random.random()
    if chance < 0.5:
        return grammar.bounded(depth)
    if chance < 0.7:
        body.append((f"share_{state.name}", call("sigmoid", grammar.expression(depth - 1))))
        share = name(f"share_{state.name}")
        kept = call("*", share, own)
        return call("+", kept, call("*", call("-", number(1), share), grammar.bounded(depth)))
    if chance < 0.85:
        kept = call("*", number(0.5), own)
        return call("+", kept, call("*", number(0.3), grammar.bounded(depth)))
    if chance < 0.95 or not gates:
        small = call("*", number(0.25), grammar.expression(depth - 1))
        return call("+", call("*", call("*", grammar.bounded(1), own), number(0.5)), small)
    if chance < 0.98 and len(states) > 1:
        return name(random.choice([s.name for s in states if s != state]))
    return name(random.choice(gates).name)


def with_all(
    random: Random, body: list[tuple[str, Node]], states: list[str], declared: list[str]
) -> tuple[tuple[str, Node], ...]:
    """The body without unused variables, and with every declared name in use.

    Args:
        random: the source of all choices.
        body: variables and new states.
        states: of the declared names, those that may be left out.
        declared: the names.
    """
    body = without_unused(body)
    used = {n for _, value in body for n in value.names()}
    for missing in declared:
        # The language allows a state that nothing reads, so one is sometimes left.
        if missing not in used and not (missing in states and random.random() < 0.5):
            i = random.choice([i for i, (t, _) in enumerate(body) if t.startswith("new_")])
            target, value = body[i]
            share = call("*", number(0.25), call("tanh", name(missing)))
            body[i] = target, call("+", value, share)
    return tuple(body)


def without_unused(body: list[tuple[str, Node]]) -> list[tuple[str, Node]]:
    """The body without unused variables."""
    kept: list[tuple[str, Node]] = []
    needed: set[str] = set()
    for target, value in reversed(body):
        if target.startswith("new_") or target in needed:
            kept.insert(0, (target, value))
            needed |= value.names()
    return kept
