"""Gates that a cell's function calls: `n(r * h)` is the gate whose matrix multiplies `r * h`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType

from ..declare import Declaration, Gate, Input, State
from ..expression.node import Node, ordered, symbol
from ..tracing.place import place_of_argument, place_of_caller
from . import refuse
from .nodes import gate_call


class Calls:
    """The gates that one run of a cell's function calls, and reads as they are.

    Attributes:
        declared: what the cell declares, by name.
        sources: the states that feed called gates directly, by gate.
        repeats: how many loops the run is inside of.
    """

    def __init__(self, declared: Mapping[str, Declaration], code: CodeType) -> None:
        self.declared = declared
        self.sources: dict[str, str] = {}
        self.repeats = 0
        self._called: dict[str, str] = {}  # the line of each call
        self._read: dict[str, str] = {}
        self._code = code

    def gate(self, node: Node) -> Gate | None:
        """The gate that a node is the symbol of, if it is one."""
        found = self.declared.get(node.name) if node.is_symbol and node.tag is None else None
        return found if isinstance(found, Gate) else None

    def call(self, gate: Gate, argument: Node) -> Node:
        """The value of a called gate.

        Args:
            gate: which is called.
            argument: what its weights multiply.

        Raises:
            CellError: the gate cannot be called, or not with this argument.
        """
        line = place_of_caller()
        if gate.source:
            raise refuse.called_with_source(gate, line, self._place_of(gate))
        if not gate.recurrent:
            raise refuse.called_without_weights(gate, line, self._place_of(gate))
        if self.repeats:
            raise refuse.in_repeat(f"{gate.name}({argument})")
        if gate.name in self._called:
            raise refuse.called_twice(gate.name, self._called[gate.name], line)
        if gate.name in self._read:
            raise refuse.read_and_called(gate.name, self._read[gate.name], line)
        if not any(map(self._varies, ordered([argument]))):
            raise refuse.fixed_argument(gate.name, str(argument))
        self._called[gate.name] = line
        if argument.is_symbol and isinstance(self.declared[argument.name], State):
            # The previous state as it is: the gate is one that is not called.
            self.sources[gate.name] = argument.name
            return symbol(gate.name)
        return gate_call(gate.name, argument)

    def read(self, node: Node) -> None:
        """Note that a value is read, which may be a gate.

        Raises:
            CellError: it is a gate that is called elsewhere.
        """
        gate = self.gate(node)
        if gate is None or gate.name in self.sources:
            return
        if gate.name in self._called:
            raise refuse.read_and_called(gate.name, place_of_caller(), self._called[gate.name])
        if gate.name not in self._read:
            self._read[gate.name] = place_of_caller()

    def _place_of(self, gate: Gate) -> str:
        return place_of_argument(self._code, gate.name)

    def _varies(self, node: Node) -> bool:
        if node.op in ("gate", "units"):
            return True
        return node.is_symbol and isinstance(self.declared.get(node.name), State | Gate | Input)

    def with_sources(self, gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
        """The gates, of which those that are called with a state have it as their source."""
        sources = self.sources
        return tuple(
            g.model_copy(update={"source": (sources[g.name],)}) if g.name in sources else g
            for g in gates
        )


_running: ContextVar[Calls | None] = ContextVar("calls of gates", default=None)


@contextmanager
def recorded(declared: Mapping[str, Declaration], code: CodeType) -> Iterator[Calls]:
    """Record the calls of gates while a cell's function runs.

    Args:
        declared: what the cell declares, by name.
        code: of the function.
    """
    calls = Calls(declared, code)
    token = _running.set(calls)
    try:
        yield calls
    finally:
        _running.reset(token)


def running() -> Calls | None:
    """The calls of the cell's function that runs now; None where none does."""
    return _running.get()


@contextmanager
def inside_repeat() -> Iterator[None]:
    """Mark that the step of a loop runs."""
    calls = _running.get()
    if calls is None:
        yield
        return
    calls.repeats += 1
    try:
        yield
    finally:
        calls.repeats -= 1
