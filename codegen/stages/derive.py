"""The programs of a cell whose step has stages, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...cellspec.cell import CellSpec
from ...cellspec.expression.graph import rewritten
from ...cellspec.expression.node import Node, call, compare, number, ordered, symbol
from ..gradient_only import known_values
from ..origins import of_terms, rewritten_origins
from ..program import Program, targets_of
from ..schedule import schedule
from .exchange import Exchanged, Product, Statistic
from .lower import Lowered, lowered
from .programs import Stages
from .split import split


@dataclass(frozen=True)
class Derived:
    """The programs, and what the forward saves and the backward reads.

    Attributes:
        stages: the programs.
        saved: names of values of a unit that the forward saves.
        reads: the states, `<state>` and `<state>_next`, that the backward reads.
    """

    stages: Stages
    saved: tuple[str, ...]
    reads: tuple[str, ...]


def derive_stages(
    cell: CellSpec, activations_of: Callable[[CellSpec, list[Node]], dict[Node, Node]]
) -> Derived:
    """Derive the programs of a cell, which may have any number of stages.

    Args:
        cell: the cell.
        activations_of: gives the functions of gates that are saved in place of the gates.
    """
    return _Derivation(cell, lowered(cell)).derived(activations_of)


class _Derivation:
    def __init__(self, cell: CellSpec, low: Lowered) -> None:
        self.cell, self.low = cell, low
        self.results = {
            f"{s.name}_next": update for s, update in zip(cell.states, low.updates, strict=True)
        }
        self.constants = [c.name for c in cell.constants]
        declared = (*cell.gates, *cell.states, *cell.inputs, *cell.params, *cell.constants)
        given = [name for each in low.exchanged for name in each.results]
        self.names = [d.name for d in declared] + given
        self.taken = {*self.names, *self.results, *low.arguments}

    def derived(
        self, activations_of: Callable[[CellSpec, list[Node]], dict[Node, Node]]
    ) -> Derived:
        """The programs of both directions."""
        # Not at the top: sympy takes half a second to import.
        from ..reverse_mode import reverse_mode

        cell, low = self.cell, self.low
        statistics = [e for e in low.exchanged if isinstance(e, Statistic)]
        products = [e for e in low.exchanged if isinstance(e, Product)]
        numbers = [name for each in statistics for name in each.differentiable]
        wanted = [d.name for d in (*cell.gates, *cell.states, *cell.inputs, *cell.params)]
        every = {**self.results, **low.arguments}
        news = {u: symbol(new) for new, u in self.results.items() if not u.is_leaf}
        stored = [product.argument for product in products]
        kept_arguments = {low.arguments[name]: symbol(name) for name in stored}
        news |= {node: own for node, own in kept_arguments.items() if not node.is_leaf}
        known = known_values(every.values(), news)
        back = reverse_mode(every, [*wanted, *numbers], known)
        cotangents = self._cotangents(known)
        gradients = dict(
            zip(back.gradients, rewritten(back.gradients.values(), cotangents), strict=True)
        )
        kept = activations_of(cell, list(gradients.values()))
        gradients = dict(zip(gradients, rewritten(gradients.values(), kept), strict=True))
        replaced = partial(self._replaced, cotangents=cotangents, kept=kept)
        backward, returned, d_values = self._backward(
            gradients,
            wishes=dict(zip(replaced(list(back.sums)), back.sums.values(), strict=True)),
            variables=self._variables(lambda nodes: replaced(rewritten(nodes, known))),
            origins=rewritten_origins(rewritten_origins(back.origins, cotangents), kept),
        )
        forward, exchanged, values = self._forward(kept)
        needed = {s.name for program in backward for s in program.inputs}
        functions = {value.args[0].name: s.name for value, s in kept.items()}
        saved = [functions.get(g.name, g.name) for g in cell.gates]
        reads = [*(s.name for s in cell.states), *self.results]
        names = [name for each in statistics for name in each.names]
        stages = Stages(
            forward=forward,
            exchanged=exchanged,
            backward=backward,
            returned=returned,
            values=values,
            d_values=d_values,
            statistics=tuple(names),
            sums=tuple(
                n for each in returned for e in each if isinstance(e, Statistic) for n in e.names
            ),
            saved_statistics=tuple(name for name in names if name in needed),
        )
        own = tuple(s for s in saved if s in needed)
        return Derived(
            stages,
            (*own, *dict.fromkeys(stored)),
            tuple(r for r in reads if r in needed),
        )

    # Forward.

    def _forward(
        self, kept: Mapping[Node, Node]
    ) -> tuple[tuple[Program, ...], tuple[tuple[Exchanged, ...], ...], tuple[str, ...]]:
        low = self.low
        exchanges = self._in_order(
            low.exchanged,
            self._arguments_of,
            {name: each for each in low.exchanged for name in each.results},
        )
        stages: list[dict[str, Node]] = []
        done: set[str] = set()
        for each in exchanges:
            names = [name for e in each for name in self._argument_names(e) if name not in done]
            done.update(names)
            stages.append({name: low.arguments[name] for name in names})
        activations = {s.name: value for value, s in kept.items()}
        stages.append({**self.results, **activations})
        alone = known_values([value for each in stages for value in each.values()])
        plain = [dict(zip(each, rewritten(each.values(), alone), strict=True)) for each in stages]
        first = [*(rewritten(kept, alone))]
        programs, left = self._programs(
            plain,
            stored=low.arguments,
            variables=self._variables(lambda nodes: rewritten(nodes, alone)),
            origins=rewritten_origins(of_terms(low.of.values()), alone),
            first=first,
        )
        return programs, exchanges, (*low.arguments, *left)

    @staticmethod
    def _argument_names(exchanged: Exchanged) -> tuple[str, ...]:
        return (exchanged.argument,) if isinstance(exchanged, Product) else exchanged.arguments

    def _arguments_of(self, exchanged: Exchanged) -> list[Node]:
        return [self.low.arguments[name] for name in self._argument_names(exchanged)]

    @staticmethod
    def _in_order(
        exchanged: Iterable[Exchanged],
        arguments: Callable[[Exchanged], list[Node]],
        sources: Mapping[str, Exchanged],
    ) -> tuple[tuple[Exchanged, ...], ...]:
        """Exchanges in rounds: each as early as its arguments are known.

        Args:
            exchanged: each after those that it reads.
            arguments: the values that one reads.
            sources: by name, what gives a symbol; others are known from the start.
        """
        rounds: dict[Exchanged, int] = {}
        for each in exchanged:
            read = {s.name for value in arguments(each) for s in ordered([value]) if s.is_symbol}
            before = [rounds[sources[name]] for name in read if name in sources]
            rounds[each] = 1 + max(before, default=-1)
        count = 1 + max(rounds.values(), default=-1)
        return tuple(
            tuple(e for e, place in rounds.items() if place == number) for number in range(count)
        )

    # Backward.

    def _cotangents(self, known: Mapping[Node, Node]) -> dict[Node, Node]:
        """The cotangent of each argument, in terms of what the backward's exchanges give."""
        terms: dict[str, list[Node]] = {name: [] for name in self.low.arguments}
        for each in self.low.exchanged:
            if isinstance(each, Product):
                terms[each.argument].append(symbol(self._returned(each.gate)))
                continue
            for name in each.arguments:
                (value,) = rewritten([self.low.arguments[name]], known)
                terms[name].append(self._pulled_back(each, value))
        found = {}
        for name, parts in terms.items():
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            found[symbol(f"d_{name}")] = total
        return found

    @staticmethod
    def _returned(name: str) -> str:
        """What an exchange of the backward gives for a called gate or a number of a head."""
        return f"d_{name}_back"

    def _pulled_back(self, statistic: Statistic, value: Node) -> Node:
        """The cotangent of a statistic's argument."""
        sums = [symbol(self._returned(name)) for name in statistic.differentiable]
        names = [symbol(name) for name in statistic.names]
        count = len(statistic.arguments)
        match statistic.kind:
            case "largest":
                share = sums[0] / names[1]
                return call("where", compare("==", value, names[0]), share, number(0))
            case "softmax":
                return call("exp", value - names[1]) * sums[0]
            case "moments":
                outer = number(2) * (value - names[0]) * sums[1]
                total = sums[0] + outer
                return total if count == 1 else total / number(count)
        return sums[0]

    def _backward(
        self,
        gradients: Mapping[str, Node],
        wishes: Mapping[Node, str],
        variables: Mapping[Node, str],
        origins: Mapping[Node, tuple[Node, ...]],
    ) -> tuple[tuple[Program, ...], tuple[tuple[Exchanged, ...], ...], tuple[str, ...]]:
        returned: list[Exchanged] = []
        for each in reversed(self.low.exchanged):
            if isinstance(each, Product):
                returned.append(Product(each.gate, self._returned(each.gate), each.dense))
                continue
            kind = "mean" if each.kind in ("mean", "moments") else "total"
            returned += [
                Statistic(kind, (self._returned(name),), (f"d_{name}",))
                for name in each.differentiable
            ]
        sources: dict[str, Exchanged] = {
            e.argument if isinstance(e, Product) else e.names[0]: e for e in returned
        }

        def read(exchanged: Exchanged) -> list[Node]:
            if isinstance(exchanged, Product):
                return [gradients[exchanged.gate]]
            return [gradients[exchanged.arguments[0].removeprefix("d_")]]

        rounds = self._in_order(returned, read, sources)
        place_of = {
            name: n for n, each in enumerate(rounds) for e in each for name in self._given(e)
        }
        states = {s.name for s in self.cell.states}
        stages: list[dict[str, Node]] = [{} for _ in range(len(rounds) + 1)]
        for name, value in gradients.items():
            symbols = [s.name for s in ordered([value]) if s.is_symbol]
            place = max((1 + place_of[s] for s in symbols if s in place_of), default=0)
            # The cotangents of new states are read in all stages, so those before come last.
            stages[len(rounds) if name in states else place][f"d_{name}"] = value
        numbers = {f"d_{n}" for n in gradients if n not in self._declared()}
        programs, left = self._programs(
            stages, stored=numbers, variables=variables, origins=origins, wishes=wishes
        )
        products = [e.argument for e in returned if isinstance(e, Product)]
        sums = [n for n in numbers]
        order = [f"d_{n}" for n in gradients if f"d_{n}" in sums]
        return programs, rounds, (*products, *order, *left)

    def _declared(self) -> set[str]:
        cell = self.cell
        return {d.name for d in (*cell.gates, *cell.states, *cell.inputs, *cell.params)}

    @staticmethod
    def _given(exchanged: Exchanged) -> tuple[str, ...]:
        """The names of what an exchange of the backward gives."""
        return (exchanged.argument,) if isinstance(exchanged, Product) else exchanged.names

    # Both.

    def _programs(
        self,
        stages: Sequence[Mapping[str, Node]],
        stored: Iterable[str],
        variables: Mapping[Node, str],
        origins: Mapping[Node, tuple[Node, ...]],
        wishes: Mapping[Node, str] | None = None,
        first: Sequence[Node] = (),
    ) -> tuple[tuple[Program, ...], tuple[str, ...]]:
        parts = split(stages, stored, self.taken)
        taken = {*self.taken, *parts.left}
        taken |= {name for each in parts.results for name in each}
        programs: list[Program] = []
        for results, known in zip(parts.results, parts.known, strict=True):
            pairs = list((wishes or {}).items())
            named = list(variables.items())
            programs.append(
                schedule(
                    results,
                    constants=self.constants,
                    taken=taken,
                    wishes=dict(
                        zip(
                            rewritten([n for n, _ in pairs], known),
                            (w for _, w in pairs),
                            strict=True,
                        )
                    ),
                    variables=dict(
                        zip(
                            rewritten([n for n, _ in named], known),
                            (w for _, w in named),
                            strict=True,
                        )
                    ),
                    first=[n for n in rewritten(first, known) if n in set(results.values())],
                    origins=rewritten_origins(origins, known),
                )
            )
            taken |= {target.name for target in targets_of(programs[-1].statements)}
        return tuple(programs), parts.left

    def _variables(self, written: Callable[[list[Node]], list[Node]]) -> dict[Node, str]:
        """The names of the cell's variables, as a program writes their values."""
        names = self.cell.variable_names
        nodes = [self.low.of[node] for node in names if node in self.low.of]
        words = [word for node, word in names.items() if node in self.low.of]
        return dict(zip(written(nodes), words, strict=True))

    @staticmethod
    def _replaced(
        nodes: list[Node], cotangents: Mapping[Node, Node], kept: Mapping[Node, Node]
    ) -> list[Node]:
        return rewritten(rewritten(nodes, cotangents), kept)
