"""Called gates and reductions as symbols, whose values an exchange between units gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...cellspec.cell import CellSpec
from ...cellspec.expression.graph import with_args
from ...cellspec.expression.node import Node, call, compare, number, ordered, symbol
from ...cellspec.stages.nodes import eps_of, reduced
from .exchange import Exchanged, Product, Statistic


@dataclass(frozen=True)
class Lowered:
    """The equations of a cell without called gates and reductions.

    Attributes:
        updates: the new value of each state. The symbol of a called gate is its pre-activation.
        arguments: by name, each value of a unit that is multiplied or reduced.
        exchanged: the products and statistics, each after those that its arguments read.
        of: for each node of the cell's equations, what it became.
        marks: by name, which units have the largest value: 1, or 0. The backward cannot compute
            this again, since it reads gates and states that are rounded.
    """

    updates: tuple[Node, ...]
    arguments: Mapping[str, Node]
    exchanged: tuple[Exchanged, ...]
    of: Mapping[Node, Node]
    marks: Mapping[str, Node]


def lowered(cell: CellSpec) -> Lowered:
    """Replace the called gates and reductions of a cell.

    Args:
        cell: any cell; one without stages stays as it is.
    """
    lowering = _Lowering(cell)
    for node in ordered(cell.updates):
        lowering.add(node)
    new = lowering.new
    updates = tuple(new[update] for update in cell.updates)
    return Lowered(updates, lowering.arguments, tuple(lowering.exchanged), new, lowering.marks)


@dataclass
class _Lowering:
    cell: CellSpec
    new: dict[Node, Node] = field(default_factory=dict)
    arguments: dict[str, Node] = field(default_factory=dict)
    exchanged: list[Exchanged] = field(default_factory=list)
    marks: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._taken = {d.name for d in self.cell.declarations}
        self._members: dict[Node, list[Node]] = {}

    def add(self, node: Node) -> None:
        """Replace a node whose arguments are replaced."""
        args = tuple(self.new[a] for a in node.args)
        if node.op == "gate":
            dense = any(pair.gate == node.name for pair in self.cell.dense_pairs)
            argument = self._argument(f"{node.name}_argument", args[0])
            self.exchanged.append(Product(node.name, argument, dense))
            self.new[node] = symbol(node.name)
        elif node.op == "units":
            values = [self.new[a] for a in reduced(node)]
            self._members[node] = self._reduced(node, values)
            self.new[node] = self._members[node][0]
        elif node.op == "member":
            assert isinstance(node.value, int)
            self.new[node] = self._members[node.args[0]][node.value]
        else:
            self.new[node] = with_args(node, args)

    def _reduced(self, node: Node, values: list[Node]) -> list[Node]:
        """Return what a reduction gives for each of its values, by symbols of statistics."""
        match node.name:
            case "mean" | "total":
                return [self._statistic(node.name, values)[0]]
            case "largest":
                return [self._statistic("largest", values)[0]]
            case "softmax":
                total, largest = self._statistic("softmax", values)
                return [call("exp", values[0] - largest) / total]
            case "layer_norm":
                mean, variance = self._statistic("moments", values)
                scale = call("rsqrt", variance + eps_of(node))
                return [(value - mean) * scale for value in values]
        squares = [value * value for value in values]
        square = squares[0]
        for other in squares[1:]:
            square = square + other
        if len(values) > 1:
            square = square / number(len(values))
        (mean,) = self._statistic("mean", [square])
        scale = call("rsqrt", mean + eps_of(node))
        return [value * scale for value in values]

    def _statistic(self, kind: str, values: list[Node]) -> list[Node]:
        place = sum(isinstance(each, Statistic) for each in self.exchanged)
        arguments = tuple(self._argument(f"{kind}_of", value) for value in values)
        names = tuple(self._free(f"{word}{place}") for word in Statistic.words(kind))
        mark = self._mark(values[0], names[0]) if kind == "largest" else ""
        self.exchanged.append(Statistic(kind, names, arguments, mark))
        return [symbol(name) for name in names]

    def _mark(self, value: Node, largest: str) -> str:
        name = self._free(f"has_{largest}")
        has = compare("==", value, symbol(largest))
        self.marks[name] = call("where", has, number(1), number(0))
        return name

    def _argument(self, wish: str, value: Node) -> str:
        """The name of a value that is multiplied or reduced; one value has one name."""
        for name, known in self.arguments.items():
            if known is value:
                return name
        name = self._free(wish)
        self.arguments[name] = value
        return name

    def _free(self, wish: str) -> str:
        name = wish
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name
