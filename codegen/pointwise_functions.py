"""A cell's pointwise maps as C++ functions, and calls of them whose arguments are found by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .derive import Pointwise
from .emit import emit_function
from .layout import layout_of


@dataclass(frozen=True)
class PointwiseFunction:
    """An inline function, values in and references out, and what its places stand for.

    Attributes:
        text: the function.
        parameters: the names of its inputs, in its order.
        results: the names of its outputs, which follow them.
        inputs: the same names by kind, each in the order of the array that holds its values.
    """

    text: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    inputs: Mapping[str, tuple[str, ...]]

    def given(self, **spelled: str) -> list[str]:
        """The arguments of a call, in the function's order, each found by its name.

        Args:
            **spelled: for each kind of input, how the value at a place of its array is written,
                with `{}` for the place.

        Raises:
            KeyError: a kind that the function does not have, or an input that no kind has.
        """
        values = {
            name: text.format(place)
            for kind, text in spelled.items()
            for place, name in enumerate(self.inputs[kind])
        }
        return [values[name] for name in self.parameters]

    def __str__(self) -> str:
        return self.text


def pointwise_functions(
    pointwise: Pointwise, passed: Sequence[str] = ()
) -> dict[str, PointwiseFunction]:
    """The forward and the backward of a cell, by direction.

    Args:
        pointwise: the derived maps of the cell.
        passed: functions of the table that the forward is passed, after its results.
    """
    layout, constants = layout_of(pointwise.cell), pointwise.cell.constants
    states, params = layout.states.names, layout.params.names
    after = tuple(f"{s}_next" for s in states)
    kinds = {
        "forward": {"gate": layout.gates.names, "state": states, "param": params},
        "backward": {
            "kept": pointwise.saved,
            "before": states,
            "after": after,
            "param": params,
            "d_after": tuple(f"d_{s}" for s in after),
        },
    }
    functions = {}
    for direction, program in (("forward", pointwise.forward), ("backward", pointwise.backward)):
        parameters = tuple(name for names in kinds[direction].values() for name in names)
        functions[direction] = PointwiseFunction(
            emit_function(
                f"pointwise_{direction}",
                program,
                parameters,
                constants,
                passed if direction == "forward" else (),
            ),
            parameters,
            tuple(str(o) for o in program.outputs),
            kinds[direction],
        )
    return functions
