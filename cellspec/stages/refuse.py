"""Errors about called gates and reductions."""

from __future__ import annotations

from ..declare import Gate
from ..errors import CellError


def called_with_source(gate: Gate, called: str = "", declared: str = "") -> CellError:
    """A called gate with `source=`; at two lines, where they are known."""
    sources = ", ".join(map(repr, gate.source))
    call, declaration = _places(called, declared)
    return CellError(
        f"a call of the gate `{gate.name}`{call}, whose source is {sources}{declaration}",
        "one value that its matrix multiplies: a source, or what the gate is called with",
        f"{gate.name}: Gate, without source=",
    )


def called_without_weights(gate: Gate, called: str = "", declared: str = "") -> CellError:
    """A called gate with `recurrent=False`; at two lines, where they are known."""
    call, declaration = _places(called, declared)
    return CellError(
        f"a call of the gate `{gate.name}`{call}, which has no weights to multiply: "
        f"recurrent=False{declaration}",
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
    value, call = _places(read, called)
    return CellError(
        f"the gate `{name}` used as a value{value} and called{call}",
        "a gate that is called in its only place, or never: a value has the product with a state",
        f"y = {name}(…), and y in both places",
    )


def _places(*lines: str) -> tuple[str, ...]:
    return tuple(f" at {line}" if line else "" for line in lines)


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
        f"n: Gate = gate(input=False) in the signature, and n({argument.replace('`', '')})",
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


def numbers_alone(name: str, given: list[str]) -> CellError:
    """A reduction of a number, or of nothing.

    Args:
        name: of the reduction.
        given: its values, as messages show them.
    """
    values = f"({', '.join(given)})" if len(given) != 1 else given[0]
    return CellError(
        f"{name}({values})",
        "a gate, state, input, param or constant of the cell in each value",
        _OF_EQUAL_NUMBERS[name] if given else f"{name}(h)",
    )


#: What a reduction of one number for all units is.
_OF_EQUAL_NUMBERS = {
    "mean": "the number itself, which is the mean of equal numbers",
    "largest": "the number itself, which is the largest of equal numbers",
    "total": "total(1 + 0 * h), the number of units, times the number",
    "softmax": "softmax(0 * h), one over the number of units",
    "layer_norm": "0, which is the norm of equal numbers",
    "rms_norm": "1, which is the norm of equal numbers above 0",
}


def several(name: str, given: list[str]) -> CellError:
    """A tuple of values for a function of one."""
    each = [f"{name}({value.strip('`')})" for value in given]
    return CellError(
        f"{name}(({', '.join(given)}))",
        "one value; layer_norm and rms_norm alone take several together",
        ", ".join(each) or f"{name}(h)",
    )


def gains(name: str, word: str, count: int, values: int) -> CellError:
    """Another number of gains or biases than values."""
    each = ", ".join(f"{word}_{place}" for place in range(values))
    return CellError(
        f"{name} of {values} value(s) with {count} for {word}",
        f"None, or a {word} for each value",
        f"{word}=({each}), each a Param" if values > 1 else f"{word}={word}, with {word}: Param",
    )


def eps(name: str, value: str) -> CellError:
    """An eps that is no number from 0."""
    return CellError(f"{name} with eps={value}", "a finite number of Python from 0", "eps=1e-5")
