"""Errors about called gates and reductions."""

from __future__ import annotations

from ..declare import Gate
from ..errors import CellError


def called_with_source(gate: Gate) -> CellError:
    """A called gate with `source=`."""
    sources = ", ".join(map(repr, gate.source))
    return CellError(
        f"a call of the gate `{gate.name}`, whose source is {sources}",
        "one value that its matrix multiplies: a source, or what the gate is called with",
        f"{gate.name}: Gate, without source=",
    )


def called_without_weights(gate: Gate) -> CellError:
    """A called gate with `recurrent=False`."""
    return CellError(
        f"a call of the gate `{gate.name}` with recurrent=False, which has no weights to multiply",
        "a gate with a matrix or with diagonal weights",
        f'{gate.name}: Gate, or {gate.name}: Gate = gate(recurrent="diagonal")',
    )


def called_twice(name: str, first: str = "", second: str = "") -> CellError:
    """A gate that is called twice; at two lines, where they are known."""
    return CellError(
        f"the gate `{name}` called twice" + (f": at {first} and at {second}" if first else ""),
        "one call of each gate: each product has a matrix of its own",
        f"another gate for the second product, such as {name}_2: Gate = gate(input=False)",
    )


def read_and_called(name: str, read: str = "", called: str = "") -> CellError:
    """A gate that is used as a value and is called; at two lines, where they are known."""
    value, call = (f" at {read}", f" at {called}") if read else ("", "")
    return CellError(
        f"the gate `{name}` used as a value{value} and called{call}",
        "a gate that is called in its only place, or never: a value has the product with a state",
        f"y = {name}(…), and y in both places",
    )


def fixed_argument(name: str, argument: str) -> CellError:
    """A gate called with a value that no call changes."""
    return CellError(
        f"{name}({argument})",
        "an argument with a State, a Gate or an Input in it: this product is the same in all steps",
        f"a bias, which is such a value already: {name}: Gate = gate(bias=True)",
    )


def state_called(name: str, argument: str) -> CellError:
    """A state that is called."""
    return CellError(
        f"a call of the state `{name}`, with {argument}",
        "a call of a gate, which has a matrix",
        f"n: Gate = gate(input=False) in the signature, and n({argument.strip('`')})",
    )


def arguments(name: str, given: list[str]) -> CellError:
    """A gate called with another number of values than one."""
    return CellError(
        f"{name}({', '.join(given)})",
        "one value, which the gate's matrix multiplies",
        f"a gate for each value: {name}(a) + {name}_2(b)" if given else f"{name}(h)",
    )


def in_repeat(call: str) -> CellError:
    """A product or reduction inside the step of a loop."""
    return CellError(
        f"{call} inside the step of repeat",
        "a loop of one unit's own values: a product or a reduction exchanges values of all units",
        "the call before or after the loop, or the passes written out",
    )


def together(call: str) -> CellError:
    """A reduction of something else than a value of the cell."""
    return CellError(
        call,
        "values of the cell with a gate, state, input or param in them",
        "the number itself: of equal numbers the mean is that number",
    )


def gains(name: str, word: str, count: int, values: int) -> CellError:
    """Another number of gains or biases than values."""
    return CellError(
        f"{name} of {values} value(s) with {count} for {word}",
        f"None, or a {word} for each value",
        f"{word}=({', '.join(f'{word}_{place}' for place in range(values))},)"
        if values > 1
        else f"{word}=w, with w: Param = param(init=1.0)",
    )


def eps(name: str, value: str) -> CellError:
    """An eps that is no positive number."""
    return CellError(f"{name} with eps={value}", "a finite number of Python from 0", "eps=1e-5")
