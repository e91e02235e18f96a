"""C++ functions of a cell's pointwise programs, and the arguments of their calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .cpu.plan import CpuPlan
from .cuda.kernel_plan import KernelPlan
from .derive import Pointwise
from .emit import calls_very_often
from .emit_function import emit_lines
from .emit_statements import Line
from .hoisting import hoisted
from .layout import layout_of
from .program import Statement


@dataclass(frozen=True)
class PointwiseFunction:
    """An inline C++ function with values as inputs and references as outputs.

    Attributes:
        lines: the function's text, with the terms of the equations that each line came from.
        parameters: the names of its inputs, in order.
        results: the names of its outputs, which follow the inputs.
        inputs: the inputs of each kind, in the order of the array that holds their values.
        read: the inputs that the function reads.
    """

    lines: tuple[Line, ...]
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    inputs: Mapping[str, tuple[str, ...]]
    read: frozenset[str]

    def given(self, unread: str | None = None, **spelled: str) -> list[str]:
        """The arguments of a call, in the function's order.

        Args:
            unread: what stands for each input that the function does not read; by default they are
                spelled like the others.
            **spelled: for each kind of input, the text of one value, with `{}` for its place in
                the array.

        Raises:
            KeyError: the function lacks a kind, or a kind of the function is missing.
        """
        values = {
            name: text.format(place)
            for kind, text in spelled.items()
            for place, name in enumerate(self.inputs[kind])
        }
        if unread is not None:
            values |= dict.fromkeys(values.keys() - self.read, unread)
        return [values[name] for name in self.parameters]

    @property
    def text(self) -> str:
        """The function's text."""
        return "\n".join(line.text for line in self.lines)

    def __str__(self) -> str:
        return self.text


def runs_in_blocks(pointwise: Pointwise, plan: CpuPlan | KernelPlan) -> bool:
    """Return True if functions compute a block of units at a time, as loops on a CPU do."""
    statements = (*pointwise.forward.statements, *pointwise.backward.statements)
    if pointwise.stages is not None:
        return False
    return plan.lanes is not None and not all(isinstance(s, Statement) for s in statements)


def pointwise_functions(
    pointwise: Pointwise, plan: CpuPlan | KernelPlan
) -> dict[str, PointwiseFunction]:
    """The functions of a cell: `"forward"` and `"backward"`.

    With a plan that hoists, `"fixed"` computes values of params alone, in that plan's direction;
    they follow the params among the inputs of that direction's function.

    Args:
        pointwise: the derived programs of the cell.
        plan: what is written. Functions of the table that it passes are arguments of the forward,
            after its results.
    """
    in_blocks = runs_in_blocks(pointwise, plan)
    layout, constants = layout_of(pointwise.cell), pointwise.cell.constants
    states, params = layout.states.names, layout.params.names
    after = tuple(f"{s}_next" for s in states)
    kinds = {
        "forward": {"gate": layout.gates.names, "state": states, "param": params},
        "backward": {
            "saved": pointwise.saved,
            "before": states,
            "after": after,
            "param": params,
            "d_after": tuple(f"d_{s}" for s in after),
            "input": layout.unweighted.space.names,
        },
    }
    programs = {"forward": pointwise.forward, "backward": pointwise.backward}
    functions = {}
    if isinstance(plan, KernelPlan) and plan.hoists:
        parts = hoisted(programs[plan.direction], params, (c.name for c in constants))
        programs[plan.direction] = parts.program
        kinds[plan.direction]["param"] = (*params, *parts.names)
        functions["fixed"] = PointwiseFunction(
            emit_lines("pointwise_fixed", parts.fixed, params, constants),
            params,
            parts.names,
            {"param": params},
            frozenset(symbol.name for symbol in parts.fixed.inputs),
        )
    for direction, program in programs.items():
        parameters = tuple(name for names in kinds[direction].values() for name in names)
        functions[direction] = PointwiseFunction(
            emit_lines(
                f"pointwise_{direction}",
                program,
                parameters,
                constants,
                sorted(plan.passed) if direction == "forward" else (),
                in_blocks=in_blocks,
                in_pieces=isinstance(plan, KernelPlan) and calls_very_often(program, plan.dtype),
            ),
            parameters,
            tuple(str(o) for o in program.outputs),
            kinds[direction],
            frozenset(symbol.name for symbol in program.inputs),
        )
    return functions
