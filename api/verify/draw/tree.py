"""The fuzzer's data: a drawn cell as trees, and one call of it with all options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

BINARY = ("+", "-", "*", "/")
RELATIONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class Node:
    """A node of an expression.

    Attributes:
        op: `name`, `number`, an operator (`neg` is the unary minus), or a function of the language.
            `**` has a whole number as its exponent, `pow` is written as `**` too. `repeat` is the
            last result of a loop, `gate` the call of a gate.
        args: its operands; of a loop, what the carried values are first, then after a pass.
        name: what a `name` refers to: a declaration, a variable, or a new state; of a loop, the
            names of the carried values; the gate that is called.
        value: of a `number`; the exponent of `**`; of a loop, the number of passes.
        keywords: the names with which the last operands of a function are written.
    """

    op: str
    args: tuple[Node, ...] = ()
    name: str = ""
    value: float | int = 0
    keywords: tuple[str, ...] = ()

    def walk(self) -> Iterator[Node]:
        """All nodes, from the root."""
        yield self
        for argument in self.args:
            yield from argument.walk()

    def names(self) -> set[str]:
        """The names in the expression, but for those of values that a loop in it carries."""
        if self.op == "name":
            return {self.name}
        found = set[str]().union(*(argument.names() for argument in self.args))
        return (found | ({self.name} if self.op == "gate" else set())) - set(self.carried)

    @property
    def carried(self) -> tuple[str, ...]:
        """The names of the values that a loop carries."""
        return tuple(self.name.split()) if self.op == "repeat" else ()

    def looped(self, function: str, texts: Sequence[str]) -> str:
        """The last result of a loop as Python text.

        Args:
            function: that repeats a step.
            texts: the operands.
        """
        count = len(self.carried)
        starts, new = ", ".join(texts[:count]), ", ".join(texts[count:])
        step = f"lambda {', '.join(self.carried)}: " + (f"({new})" if count > 1 else new)
        return f"{function}({self.value}, {step}, {starts})" + "[-1]" * (count > 1)

    def called(self, function: str, texts: Sequence[str]) -> str:
        """The call of a function as Python text.

        Keywords are in alphabetical order, which for most functions is not that of the operands.

        Args:
            function: its name.
            texts: the operands.
        """
        first = len(texts) - len(self.keywords)
        named = sorted(zip(self.keywords, texts[first:], strict=True))
        parts = [*texts[:first], *(f"{keyword}={text}" for keyword, text in named)]
        return f"{function}({', '.join(parts)})"


def name(word: str) -> Node:
    """A reference."""
    return Node("name", name=word)


def number(value: float) -> Node:
    """A literal."""
    return Node("number", value=value)


def call(function: str, *arguments: Node) -> Node:
    """The node of a call or an operation."""
    return Node(function, arguments)


@dataclass(frozen=True)
class GateDraw:
    """A gate with the options of `rnnc.gate`; with `switch`, its inputs are small whole numbers."""

    name: str
    input: bool = True
    recurrent: bool | Literal["diagonal"] = True
    bias: bool = True
    source: tuple[str, ...] = ()
    switch: bool = False


@dataclass(frozen=True)
class ValueDraw:
    """A state, param or constant with its initial or only value."""

    name: str
    value: float = 0.0
    switch: bool = False


@dataclass(frozen=True)
class InputDraw:
    """An input that no weight multiplies.

    Attributes:
        name: its name.
        form: which axes of a call it has: all (`full`), those of rows and steps (`rows`), of
            `steps` or of `units`.
        switch: whether its values are small whole numbers.
        draw: the distribution and its numbers, if calls may draw it; a scan does.
    """

    name: str
    form: str = "rows"
    switch: bool = False
    draw: tuple[str, tuple[float, ...]] | None = None


@dataclass(frozen=True)
class CellDraw:
    """A cell.

    Attributes:
        gates: the gates in the order of the signature.
        states: the states in this order.
        params: the params in this order.
        constants: the constants in this order.
        order: all names, in the order of the signature.
        body: variables and new states (`new_h` of a state `h`), in the order of assignment.
        inputs: the inputs that no weight multiplies in this order.
    """

    gates: tuple[GateDraw, ...]
    states: tuple[ValueDraw, ...]
    params: tuple[ValueDraw, ...]
    constants: tuple[ValueDraw, ...]
    order: tuple[str, ...]
    body: tuple[tuple[str, Node], ...]
    inputs: tuple[InputDraw, ...] = ()

    @property
    def declared(self) -> tuple[GateDraw | ValueDraw | InputDraw, ...]:
        """All declarations: gates, states, params, constants and inputs."""
        return (*self.gates, *self.states, *self.params, *self.constants, *self.inputs)

    @property
    def input_gates(self) -> list[GateDraw]:
        """The gates with an input."""
        return [g for g in self.gates if g.input]

    @property
    def called(self) -> set[str]:
        """The names of the gates that it calls."""
        nodes = (node for _, value in self.body for node in value.walk())
        return {node.name for node in nodes if node.op == "gate"}

    @property
    def bias_gates(self) -> list[GateDraw]:
        """The gates with a bias."""
        return [g for g in self.gates if g.bias]

    def pairs(self, kind: bool | str) -> list[tuple[str, str]]:
        """The (gate, source) pairs of a kind of recurrence."""
        first = self.states[0].name
        return [
            (g.name, s) for g in self.gates if g.recurrent == kind for s in g.source or (first,)
        ]


Through = Literal["scan", "module", "step", "compiled", "inductor"]


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        cell: the cell.
        seed: the seed of the tensors' values.
        device: `cpu` or `cuda`.
        dtype: the dtype of all tensors, without `torch.`.
        batch: B; may be 0.
        steps: T; may be 0.
        heads: N.
        dim: D.
        through: `scan`, or an `rnnc.RNN` that is called, stepped, or compiled (`inductor`: by
            torch's default compiler).
        reverse: whether a scan runs from the last step to the first.
        both: whether the module has both directions.
        layers: the module's number of layers.
        input_size: the module's input size.
        batch_first: whether the module's batch axis comes first.
        bias: whether the call has biases.
        states: whether the call has initial states.
        variant: the kind of plan on a GPU.
        save: what the forward saves, `gates` or `states`.
        threads: the number of CPU threads.
        json: whether the cell is written to JSON and read back first.
        views: the memory layout of tensors by name; other tensors are `plain`.
        without: the tensors that need no gradient.
        silent: the outputs that have no gradient.
        flags: the flags of the C++ compiler: `shipped`, or `quick` for a fast compilation.
        lengths: of each row; none for all steps.
        resets: the steps of each row before which it is reset; none for no resets.
        reset_to: to what: `init`, or values that are `shared` by rows, of `rows`, or `stored`.
    """

    cell: CellDraw
    seed: int = 0
    device: str = "cpu"
    dtype: str = "float64"
    batch: int = 2
    steps: int = 3
    heads: int = 1
    dim: int = 2
    through: Through = "scan"
    reverse: bool = False
    both: bool = False
    layers: int = 1
    input_size: int = 3
    batch_first: bool = False
    bias: bool = True
    states: bool = True
    variant: str = "auto"
    save: str = "gates"
    threads: int = 1
    json: bool = False
    views: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    flags: str = "quick"
    lengths: tuple[int, ...] = ()
    resets: tuple[tuple[int, ...], ...] = ()
    reset_to: str = "init"

    @property
    def rows(self) -> list[tuple[int, tuple[int, ...]]]:
        """The length and the resets of each row; none without lengths and resets."""
        if not self.lengths and not self.resets:
            return []
        lengths = self.lengths or (self.steps,) * self.batch
        resets = self.resets or ((),) * self.batch
        return [
            (min(length, self.steps), tuple(t for t in own if t < self.steps))
            for length, own in zip(lengths[: self.batch], resets[: self.batch], strict=True)
        ]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Ends of the names of each direction's parameters."""
        return ("", "_reverse") if self.both else ("",)
