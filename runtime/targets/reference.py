"""Reference: the cell's equations as a loop of torch operations, never optimised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.expression.loops import body_of, carried, results_of, unchanged
from ...cellspec.expression.node import Node, ordered
from ...cellspec.functions import TABLE
from ...cellspec.stages.nodes import STAGES
from ...codegen.layout import in_order_of_sums
from ..call.masks import HOLD, RESTART, Masks
from ..call.tensors import ScanInputs, States
from .stages_by_torch import StagesByTorch, matrix_product


class WithGradient(torch.autograd.Function):
    """The first of two tensors of one shape, with the gradient of the second.

    With a bound that gradient is clamped to [-bound, bound]: cotangents are, which a backward
    passes on, once those of all uses of the value are added. In forward mode there are none, and
    the tangent of the second passes unchanged.
    """

    # This rule and `setup_context` let transforms of torch.func follow it.
    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, of: Tensor, bound: Tensor | None = None) -> Tensor:
        """Return the value."""
        # No view: torch wants the tangent of a view to be a view of the tangent of its base.
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the bound."""
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Pass the gradient to the second."""
        (bound,), (found,) = ctx.saved_tensors, gradients
        if bound is not None:
            found = torch.minimum(torch.maximum(found, -bound), bound)
        return None, found, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        """Return the tangent of the second."""
        return tangents[1].clone()


def scan_reference(
    cell: CellSpec, inputs: ScanInputs, reverse: bool = False
) -> tuple[States, States]:
    """Run a cell step by step, as `rnnc.scan`, in any dtype, with autograd's gradients."""
    wx, initial_states = inputs.wx, inputs.initial_states
    params = {p.name: t for p, t in zip(cell.params, inputs.params, strict=True)}
    current = {s.name: value for s, value in zip(cell.states, initial_states, strict=True)}
    history: list[States] = []
    steps = range(wx.shape[1])
    for step in reversed(steps) if reverse else steps:
        if inputs.masks is None:
            current = _next_states(cell, inputs, params, step, current)
            history.append(tuple(current.values()))
            continue
        before = _restarted(cell, inputs.masks, step, current)
        runs = (inputs.masks.steps[step] != HOLD)[:, None, None]
        new = _next_states(cell, inputs, params, step, before, runs)
        current = {name: torch.where(runs, value, before[name]) for name, value in new.items()}
        history.append(tuple([torch.where(runs, value, 0.0) for value in new.values()]))
    if not history:
        empty = tuple(s.new_empty(s.shape[0], 0, *s.shape[1:]) for s in initial_states)
        return empty, tuple(s.clone() for s in initial_states)
    if reverse:
        history.reverse()
    over_time = tuple(torch.stack(h, dim=1) for h in zip(*history, strict=True))
    # A cell may return a state or param unchanged. The caller gets a copy that nothing else uses.
    return over_time, tuple(s.clone() for s in current.values())


def _next_states(
    cell: CellSpec,
    inputs: ScanInputs,
    params: Mapping[str, Tensor],
    step: int,
    states: Mapping[str, Tensor],
    runs: Tensor | None = None,
) -> dict[str, Tensor]:
    """Return the states after a step; of no meaning in rows that `runs` (B, 1, 1) leaves out."""
    like = next(iter(states.values()))

    def selected(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        # A derivative may be infinite where a row does not run. Each operand is selected, so that
        # no such product reaches a gradient.
        if runs is None:
            return dict(values)
        return {name: torch.where(runs, value, 0.0) for name, value in values.items()}

    sources = selected(states)
    # A param is expanded to rows first: an operation that clips a gradient clips it per row,
    # before the sum over rows.
    values = selected({name: p.expand_as(like) for name, p in params.items()}) | sources
    gates = selected(_gates(cell, inputs, step, sources))
    values |= gates
    given = zip(cell.inputs, inputs.unweighted, strict=True)
    # Expanded to rows and units, as params are.
    values |= selected(
        {i.name: x[:, step if x.shape[1] > 1 else 0].expand_as(like) for i, x in given}
    )
    values |= {c.name: inputs.wx.new_tensor(c.value) for c in cell.constants}
    stages = StagesByTorch(cell, inputs, gates, like, runs) if cell.has_stages else None
    new = evaluate(cell.updates, values, inputs.wx, stages)
    return {s.name: value.expand_as(like) for s, value in zip(cell.states, new, strict=True)}


def _restarted(
    cell: CellSpec, masks: Masks, step: int, states: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the states before a step, after the resets."""
    resets = (masks.steps[step] == RESTART)[:, None, None]
    found = {}
    for i, state in enumerate(cell.states):
        value: Tensor | float = state.init
        if masks.reset_to is not None:
            given = masks.reset_to[i]
            if given.ndim < 4:
                value = given
            elif step < given.shape[1]:  # in the reverse direction no row restarts at the last one
                value = given[:, step]
        found[state.name] = torch.where(resets, value, states[state.name])
    return found


def _gates(
    cell: CellSpec, inputs: ScanInputs, step: int, states: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return G = x + R s + b, with the terms that each gate has."""
    gates = {g.name: torch.zeros_like(states[cell.states[0].name]) for g in cell.gates}
    wx = inputs.wx[:, step]
    for i, name in enumerate(cell.input_gates):
        gates[name] = gates[name] + wx[..., i]
    for pair in _summed(cell, cell.dense_pairs):
        assert inputs.R is not None
        matrix = inputs.R[cell.dense_pairs.index(pair)]
        gates[pair.gate] = gates[pair.gate] + matrix_product(matrix, states[pair.source])
    for pair in _summed(cell, cell.diagonal_pairs):
        assert inputs.R_diag is not None
        weight = inputs.R_diag[cell.diagonal_pairs.index(pair)]
        gates[pair.gate] = gates[pair.gate] + weight * states[pair.source]
    if inputs.b is not None:
        for i, name in enumerate(cell.bias_gates):
            gates[name] = gates[name] + inputs.b[i]
    return gates


# The pairs that states feed, in the order in which kernels add their products, whatever the order
# of declarations.
_summed = lru_cache(maxsize=512)(in_order_of_sums)


def evaluate(
    roots: Sequence[Node],
    values: Mapping[str, Tensor],
    like: Tensor,
    stages: StagesByTorch | None = None,
) -> list[Tensor]:
    """Return the values of expressions as written; a shared subexpression is evaluated once.

    `values` has the value of each symbol by its name. Numbers get the dtype and device of `like`.
    `stages` computes called gates and reductions, of cells that have some.
    """
    memory: dict[Node, Tensor] = {}
    for node in ordered(roots):
        if node.op == "repeat":
            after = _repeated(node, [memory[a] for a in node.args], like)
            memory |= zip(results_of(node), after, strict=True)
        elif node.op in STAGES or node.op == "member":
            assert stages is not None
            memory |= stages.computed(node, memory)
        elif node.op != "result":
            memory[node] = _apply(node, [memory[a] for a in node.args], values, like)
    return [memory[root] for root in roots]


def _repeated(loop: Node, arguments: list[Tensor], like: Tensor) -> list[Tensor]:
    """Return the carried values after the passes of a loop."""
    body = body_of(loop)
    current, fixed = arguments[: len(body.roots)], arguments[len(body.roots) :]
    values = {unchanged(place).name: value for place, value in enumerate(fixed)}
    for _ in range(body.passes):
        values |= {carried(place).name: value for place, value in enumerate(current)}
        current = evaluate(body.roots, values, like)
    return current


def _apply(
    node: Node, arguments: list[Tensor], values: Mapping[str, Tensor], like: Tensor
) -> Tensor:
    match node.op:
        case "symbol":
            return values[node.name]
        case "number":
            return like.new_tensor(node.value)
        case "true" | "false":
            return torch.tensor(node.op == "true", device=like.device)
        case "neg":
            return torch.neg(arguments[0])
        case "**":
            assert isinstance(node.value, int)
            base = arguments[0]
            return _power(base if node.value > 0 else torch.reciprocal(base), abs(node.value))
        case "call":
            function = TABLE[node.name]
            exponent = node.args[1].value if node.name == "pow" else None
            if isinstance(exponent, int | float):
                # torch computes with the exact number, and knows some exponents.
                return torch.pow(arguments[0], exponent)
            scope = _SCOPE | dict(zip(function.arguments, arguments, strict=True))
            result: Tensor = eval(_TWINS[node.name], scope)
            return result
    return _OPERATORS[node.op](*arguments)


def _power(base: Tensor, exponent: int) -> Tensor:
    """Return a power by the products that the kernels compute."""
    if exponent == 1:
        return base
    if exponent == 3:
        return base * base * base
    half = _power(base, exponent // 2)
    return half * half * base if exponent % 2 else half * half


_OPERATORS: dict[str, Callable[..., Tensor]] = {
    "+": torch.add,
    "-": torch.sub,
    "*": torch.mul,
    "/": torch.div,
    "<": torch.lt,
    "<=": torch.le,
    ">": torch.gt,
    ">=": torch.ge,
    "==": torch.eq,
    "!=": torch.ne,
    "&": torch.logical_and,
    "|": torch.logical_or,
    "~": torch.logical_not,
}

# What each function is in torch, and what the text may use.
_TWINS = {name: compile(f.torch, "<torch twin>", "eval") for name, f in TABLE.items()}
_SCOPE = {"torch": torch, "F": F, "WithGradient": WithGradient}
