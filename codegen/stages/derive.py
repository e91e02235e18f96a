"""The programs of a cell, forward and backward, each of one stage or more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...cellspec.cell import CellSpec
from ...cellspec.expression.graph import rewritten
from ...cellspec.expression.node import Node, symbol
from ..gradient_only import known_values
from ..origins import of_terms, rewritten_origins
from ..program import Program
from .cotangents import cotangents_of_arguments, returned_exchanges
from .early_sums import backward_sums
from .exchange import Exchanged, Product, Statistic
from .lower import Lowered, lowered
from .programs import Stages
from .rounds import Rounds, in_rounds, symbol_names
from .write import Wishes, variables_of, write_stages

Activations = Callable[[CellSpec, list[Node]], dict[Node, Node]]


@dataclass(frozen=True)
class Derived:
    """The programs, and what the forward saves and the backward reads.

    Attributes:
        stages: the programs.
        saved: names of values of a unit that the forward saves: gates or functions of them, then
            what called gates multiply, and which units have the largest value of their head.
        reads: the states, `<state>` and `<state>_next`, that the backward reads.
    """

    stages: Stages
    saved: tuple[str, ...]
    reads: tuple[str, ...]


@dataclass(frozen=True)
class _Directed:
    """The stages of one direction: programs, the exchanges between them, values that they leave."""

    programs: tuple[Program, ...]
    rounds: Rounds
    values: tuple[str, ...]


def derive_stages(
    cell: CellSpec, activations_of: Activations, *, early_sums: bool = False
) -> Derived:
    """Derive the programs of a cell.

    One reverse mode gives the gradients of all stages: its results are the new states and the
    arguments of exchanges. The cotangent of an argument is what an exchange of the backward gives.

    Args:
        cell: the cell; one without stages has one program per direction.
        activations_of: gives the functions of gates that are saved in place of the gates.
        early_sums: whether the backward's sums that wait for others are replaced by more sums that
            do not, where that saves an exchange.
    """
    # Not at the top: sympy takes half a second to import.
    from ..reverse_mode import reverse_mode

    low = lowered(cell)
    new_states = zip(cell.states, low.updates, strict=True)
    updates = {f"{state.name}_next": update for state, update in new_states}
    statistics = [e for e in low.exchanged if isinstance(e, Statistic)]
    multiplied = [e.argument for e in low.exchanged if isinstance(e, Product)]
    results = {**updates, **low.arguments}
    # What is saved is read, and not computed again.
    stored = {**updates, **{name: low.arguments[name] for name in multiplied}}
    news = {value: symbol(name) for name, value in stored.items() if not value.is_leaf}
    known = known_values(results.values(), news)
    wanted = [d.name for d in (*cell.gates, *cell.states, *cell.inputs, *cell.params)]
    numbers = [name for each in statistics for name in each.differentiable]
    # Of all, so that it changes no rounding of the others which of them are asked for.
    back = reverse_mode(results, [*wanted, *numbers], known)
    cotangents = cotangents_of_arguments(low, known)
    unasked = {given.name for given in cell.inputs if not given.has_gradient}
    asked = {name: value for name, value in back.gradients.items() if name not in unasked}
    gradients = rewritten(asked.values(), cotangents)
    kept = activations_of(cell, gradients)

    def replaced(nodes: list[Node]) -> list[Node]:
        return rewritten(rewritten(nodes, cotangents), kept)

    names = variables_of(cell, low)
    wishes = Wishes(
        sums=dict(zip(replaced([*back.sums]), back.sums.values(), strict=True)),
        variables=dict(zip(replaced(rewritten(names, known)), names.values(), strict=True)),
        origins=rewritten_origins(rewritten_origins(back.origins, cotangents), kept),
    )
    final = dict(zip(asked, rewritten(gradients, kept), strict=True))
    backward = _backward(cell, low, final, wishes, early_sums)
    needed = {symbol.name for program in backward.programs for symbol in program.inputs}
    marks = {name: value for name, value in low.marks.items() if name in needed}
    forward = _forward(cell, low, updates, kept, marks)
    functions = {value.args[0].name: s.name for value, s in kept.items()}
    saved = [functions.get(gate.name, gate.name) for gate in cell.gates]
    reads = [*(state.name for state in cell.states), *updates]
    given = tuple(name for each in statistics for name in each.names)
    sums = [e for each in backward.rounds for e in each if isinstance(e, Statistic)]
    stages = Stages(
        forward=forward.programs,
        exchanged=forward.rounds,
        backward=backward.programs,
        returned=backward.rounds,
        values=forward.values,
        d_values=backward.values,
        statistics=given,
        sums=tuple(name for each in sums for name in each.names),
        saved_statistics=tuple(name for name in given if name in needed),
    )
    return Derived(
        stages,
        (
            *(s for s in saved if s in needed),
            *dict.fromkeys(multiplied),
            *marks,
        ),
        tuple(r for r in reads if r in needed),
    )


def _forward(
    cell: CellSpec,
    low: Lowered,
    updates: Mapping[str, Node],
    kept: Mapping[Node, Node],
    marks: Mapping[str, Node],
) -> _Directed:
    """The stages that compute the new states, and in the last what is saved besides gates."""
    sources = {name: each for each in low.exchanged for name in each.results}

    def reads(exchanged: Exchanged) -> list[Node]:
        return [low.arguments[name] for name in exchanged.reads]

    rounds = in_rounds(low.exchanged, reads, sources)
    stages: list[dict[str, Node]] = []
    done: set[str] = set()
    for each in rounds:
        own = [name for exchanged in each for name in exchanged.reads if name not in done]
        done.update(own)
        stages.append({name: low.arguments[name] for name in own})
    functions = {name.name: value for value, name in kept.items()}
    stages.append({**updates, **functions, **marks})
    alone = known_values([value for each in stages for value in each.values()])
    names = variables_of(cell, low)
    wishes = Wishes(
        sums={},
        variables=dict(zip(rewritten(names, alone), names.values(), strict=True)),
        origins=rewritten_origins(of_terms(low.of.values()), alone),
        first=tuple(rewritten(kept, alone)),
    )
    plain = [dict(zip(each, rewritten(each.values(), alone), strict=True)) for each in stages]
    programs, left = write_stages(cell, low, plain, low.arguments, wishes)
    return _Directed(programs, rounds, (*low.arguments, *left))


def _backward(
    cell: CellSpec,
    low: Lowered,
    gradients: Mapping[str, Node],
    wishes: Wishes,
    early_sums: bool,
) -> _Directed:
    """The stages that compute the gradients, each as early as the exchanges allow."""
    early = backward_sums(returned_exchanges(low), gradients, early=early_sums)
    sources = {name: each for each in early.exchanges for name in each.gives_back}
    rounds = in_rounds(early.exchanges, early.reads, sources)
    after = {n: i for i, each in enumerate(rounds, 1) for e in each for n in e.gives_back}
    needed = {n: i for i, each in enumerate(rounds) for e in each for n in e.reads}
    stages: list[dict[str, Node]] = [{} for _ in range(len(rounds) + 1)]
    states = {state.name for state in cell.states}
    for name, value in early.gradients.items():
        place = max((after.get(n, 0) for n in symbol_names([value])), default=0)
        # All stages read the cotangents of the new states, whose memory those before them take.
        place = len(rounds) if name in states else needed.get(f"d_{name}", place)
        stages[place][f"d_{name}"] = value
    sums = [e for e in early.exchanges if isinstance(e, Statistic)]
    contributions = [name for each in sums for name in each.reads]
    programs, left = write_stages(cell, low, stages, contributions, wishes)
    products = [e.argument for e in early.exchanges if isinstance(e, Product)]
    return _Directed(programs, rounds, (*products, *contributions, *left))
