"""The rules of a valid cell; each broken rule is an error with a remedy."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .declare import Gate
from .errors import CellError
from .expression.graph import calls, everywhere
from .finite import finite
from .functions import TABLE
from .names import check_name
from .noise.draw import check_draw
from .refuse import leaked
from .stages.check import check_stages, check_value

if TYPE_CHECKING:
    from .cell import CellSpec


def check_cell(cell: CellSpec) -> None:
    """Check every rule of a cell.

    Raises:
        CellError: a rule is broken; its place is the cell's name, and `trace` adds file and line.
    """
    try:
        _check_docstring(cell.doc)
        _check_names(cell)
        _check_states(cell)
        for gate in cell.gates:
            _check_gate(gate, [s.name for s in cell.states])
        _check_numbers(cell)
        _check_draws(cell)
        _check_updates(cell)
        check_stages(cell)
        _check_use(cell)
    except CellError as error:
        raise error.at(cell.name) from None


def _check_docstring(doc: str) -> None:
    try:
        doc.encode()
    except UnicodeEncodeError as error:
        half = doc[error.start]
        raise CellError(
            f"the docstring's {half!r}, which is half of a letter",
            "a docstring that UTF-8 can write",
            f"the letter itself, or {half!r} with two backslashes",
        ) from error


def _check_names(cell: CellSpec) -> None:
    check_name(cell.name, "cell")
    for declaration in cell.declarations:
        check_name(declaration.name, type(declaration).__name__.lower())
    for name, count in Counter(d.name for d in cell.declarations).items():
        if count > 1:
            raise CellError(
                f"the name `{name}` declared {count} times", "one name for one thing", "other names"
            )


def _check_states(cell: CellSpec) -> None:
    if not cell.states:
        raise CellError(
            "no state",
            "at least one State: what the cell carries from step to step",
            "an argument such as h: State",
        )
    names = [s.name for s in cell.states]
    given, wanted = len(cell.updates), len(names)
    if given < wanted:
        raise CellError(
            f"{given} returned value(s); no value for the state `{names[given]}`",
            f"{wanted}, one for each state in order: {', '.join(names)}",
            f"return {', '.join(names)}",
        )
    if given > wanted:
        raise CellError(
            f"{given} returned values for {wanted} state(s)",
            f"one for each state in order: {', '.join(names)}",
            f"return {', '.join(names)}",
        )
    for i, update in enumerate(cell.updates):
        if update in cell.updates[:i]:
            twin = names[cell.updates.index(update)]
            raise CellError(
                f"one value returned twice, for the states `{twin}` and `{names[i]}`: {update}",
                f"one value for each state in order: {', '.join(names)}",
                f"return {', '.join(names)}",
            )


def _check_gate(gate: Gate, states: list[str]) -> None:
    if not gate.input and not gate.recurrent:
        raise CellError(
            f"the gate `{gate.name}` with input=False and recurrent=False, which leaves it empty",
            "a gate with an input, a recurrent product, or both",
            f"{gate.name}: Param, for a learned value per unit",
        )
    if gate.source and not gate.recurrent:
        raise CellError(
            f"the gate `{gate.name}` with a source but recurrent=False",
            "a source only where a recurrent product uses it",
            "gate(recurrent=False), without source",
        )
    for source, count in Counter(gate.source).items():
        if source not in states:
            raise CellError(
                f"the gate `{gate.name}` with source {source!r}, which is not a state",
                f"one of the states {', '.join(states)}",
                f"gate(source={states[0]!r})",
            )
        if count > 1:
            raise CellError(
                f"the gate `{gate.name}` with source {source!r} named {count} times",
                "each source once: two matrices on one state are one matrix",
                f"gate(source={source!r})",
            )


def _check_numbers(cell: CellSpec) -> None:
    for state in cell.states:
        finite(state.init, f"the initial value of the state `{state.name}`", cell.name)
    for param in cell.params:
        finite(param.init, f"the initial value of the param `{param.name}`", cell.name)
    for constant in cell.constants:
        finite(constant.value, f"the value of the constant `{constant.name}`", cell.name)


def _check_draws(cell: CellSpec) -> None:
    for name, draw in cell.drawn.items():
        check_draw(name, draw, cell.constant_values)


def _check_updates(cell: CellSpec) -> None:
    declared = {d.name for d in cell.declarations}
    for state, update in zip(cell.states, cell.updates, strict=True):
        for leaf in update.free_symbols:
            if leaf.tag is not None:
                raise leaked(leaf.name)
        for symbol in sorted(s.name for s in update.free_symbols):
            if symbol not in declared:
                raise CellError(
                    f"the unknown symbol `{symbol}` in the new value of `{state.name}`",
                    f"the names of the signature: {', '.join(sorted(declared))}",
                    f"{symbol}: Gate, State, Input, Param or Constant in the signature",
                )
        for name in sorted(calls([update]) - set(TABLE)):
            raise CellError(
                f"the unknown function `{name}`",
                f"one of {', '.join(sorted(TABLE))}",
                "the function as an expression of those",
            )
        check_value(update, state.name)
        if update.is_condition:
            raise CellError(
                f"the condition {update} as the new value of `{state.name}`",
                "a number",
                f"where({update}, 1, 0)",
            )
        for node in everywhere([update]):
            if node.op == "/" and node.args[1].is_number and node.args[1].value == 0:
                raise CellError(
                    f"{node} in the new value of `{state.name}`",
                    "an expression without a division by zero",
                    "another divisor",
                )


def _check_use(cell: CellSpec) -> None:
    used = {s.name for update in cell.updates for s in update.free_symbols}
    used.update(cell.called)
    for gate in cell.gates:
        if gate.name not in used:
            raise CellError(
                f"the gate `{gate.name}`, which no state's new value uses",
                "every gate in some equation: its matrix would cost time and learn nothing",
                f"a signature without `{gate.name}`, or an equation with it",
            )
    used |= {name for draw in cell.drawn.values() for name in draw.names}
    for unused in (*cell.inputs, *cell.params, *cell.constants):
        if unused.name not in used:
            what = type(unused).__name__.lower()
            raise CellError(
                f"the {what} `{unused.name}`, which no state's new value uses",
                f"every {what} in some equation",
                f"a signature without `{unused.name}`, or an equation with it",
            )
