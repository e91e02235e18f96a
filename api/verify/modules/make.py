"""Makes one call of a module, of kernels or of the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...runtime.module.rnn import RNN
from ...runtime.module.stepper import Stepper
from ..fuzz.tensors import lay
from .case import Call, ModuleCase
from .cells import cell_named
from .draws import draws, generator_of, is_drawn, named_inputs
from .layout import given, padded, reset_of, returned
from .values import Tensors, differs, tensors_of, used


def context_of(call: Call) -> Any:
    """Return the context of a call's gradients."""
    contexts = {"no_grad": torch.no_grad, "inference": torch.inference_mode}
    return contexts.get(call.mode, nullcontext)()


def states_of(case: ModuleCase, leaves: Tensors, kind: str = "states") -> list[Tensor] | None:
    """Return the states of a call, or its reset values; None without."""
    names = [f"{kind}.{state.name}" for state in cell_named(case.cell).states]
    return [leaves[name] for name in names] if names[0] in leaves else None


def leaves_of(
    case: ModuleCase, call: Call, dtype: torch.dtype, kernels: bool
) -> tuple[Tensors, Tensors]:
    """Return the tensors that a call takes, and the gradients of its outputs, in its layout.

    Args:
        case: the case.
        call: the call.
        dtype: of the module.
        kernels: whether kernels run it: then there is NaN in padding, x is a view, and what the
            call draws is not there.
    """

    def placed(name: str, tensor: Tensor) -> Tensor:
        tensor = padded(call, name, tensor) if kernels else tensor
        laid = given(case, call, name, tensor.to(dtype)).contiguous()
        return lay(laid, call.view) if name == "x" else laid.clone()

    values, seeds = tensors_of(case, call)
    if kernels and draws(case, call):
        values = {name: value for name, value in values.items() if not is_drawn(name)}
    leaves = {name: placed(name, value) for name, value in values.items()}
    for name, leaf in leaves.items():
        leaf.requires_grad_(differs(case, name, call))
    return leaves, {name: placed(name, seed) for name, seed in seeds.items()}


def begin(rnn: RNN, case: ModuleCase, call: Call, kernels: bool) -> Callable[[], Tensors]:
    """Make a call; return a function that runs its backward, if it has one, and gives all results.

    Args:
        rnn: the module.
        case: the case.
        call: over time, or of single steps.
        kernels: as in `leaves_of`.
    """
    dtype = next(rnn.parameters()).dtype
    leaves, seeds = leaves_of(case, call, dtype, kernels)
    rnn.train(call.training)
    with context_of(call):
        run = _steps if call.kind == "steps" else _sequence
        outputs = run(rnn, case, call, leaves)
    return partial(_finish, rnn, case, call, leaves, seeds, outputs)


def _finish(
    rnn: RNN, case: ModuleCase, call: Call, leaves: Tensors, seeds: Tensors, outputs: Tensors
) -> Tensors:
    asked = {n: t for n, t in (*rnn.named_parameters(), *leaves.items()) if t.requires_grad}
    named = [name for name in used(call, outputs) if outputs[name].requires_grad]
    found = {name: tensor.detach() for name, tensor in outputs.items()}
    if call.has_backward and asked and named:
        run = partial(
            torch.autograd.grad,
            [outputs[name] for name in named],
            list(asked.values()),
            [seeds[name] for name in named],
            allow_unused=True,
        )
        gradients = run(retain_graph=call.mode == "twice")
        if call.mode == "twice":
            gradients = run()
        for (name, leaf), gradient in zip(asked.items(), gradients, strict=True):
            found[f"d {name}"] = torch.zeros_like(leaf) if gradient is None else gradient
    return {
        name: returned(case, call, name.removeprefix("d "), tensor.detach())
        for name, tensor in found.items()
    }


def _sequence(rnn: RNN, case: ModuleCase, call: Call, leaves: Tensors) -> Tensors:
    """Return the outputs of a call over time."""
    masks: dict[str, Any] = {}
    if call.lengths:
        lengths = torch.tensor(call.lengths, device=case.device)
        masks["lengths"] = lengths[0] if call.single else lengths
    reset = reset_of(call)
    if reset is not None:
        masks["reset"] = given(case, call, "reset", reset.to(case.device))
        own = call.reset_to == "own"
        masks["reset_to"] = states_of(case, leaves, "states" if own else "reset_to")
    found = rnn(
        leaves["x"],
        states_of(case, leaves),
        all_states=call.all_states,
        inputs=named_inputs(leaves) or None,
        generator=generator_of(case, call) if cell_named(case.cell).drawn else None,
        **masks,
    )
    names = [state.name for state in cell_named(case.cell).states]
    outputs = {"y": found[0]} | _lasts(case, found[1])
    if call.all_states:
        outputs |= {f"{name} over time": found[2][name] for name in names[1:]}
    return outputs


def _steps(rnn: RNN, case: ModuleCase, call: Call, leaves: Tensors) -> Tensors:
    """Return the outputs of single steps."""
    reset = reset_of(call)
    states: Sequence[Tensor] | None = states_of(case, leaves)
    masks: dict[str, Any] = {}
    ys = []
    for t in range(call.steps):
        if reset is not None:
            now = reset[t].to(case.device)
            masks["reset"] = now[0] if call.single else now
            masks["reset_to"] = states_of(case, leaves, "reset_to")
        y, states = rnn.step(leaves["x"][t], states, inputs=_inputs(leaves, t), **masks)
        ys.append(y)
    return {"y": torch.stack(ys)} | _lasts(case, states)


def stepper_outputs(stepper: Stepper, case: ModuleCase, call: Call) -> Tensors:
    """Run a stepper, and return its outputs.

    Args:
        stepper: with its first states.
        case: the case.
        call: the call.
    """
    leaves, _ = leaves_of(case, call, getattr(torch, case.dtype), kernels=True)
    reset, ys = reset_of(call), []
    for t in range(call.steps):
        if reset is not None:
            stepper.reset(reset[t].to(case.device))
        ys.append(stepper(leaves["x"][t], inputs=_inputs(leaves, t)).clone())
    return {"y": torch.stack(ys)} | _lasts(case, [state.clone() for state in stepper.states])


def _lasts(case: ModuleCase, states: Any) -> Tensors:
    names = [state.name for state in cell_named(case.cell).states]
    return {f"{name} last": state for name, state in zip(names, states, strict=True)}


def _inputs(leaves: Tensors, t: int) -> Tensors | None:
    """Return the inputs that no weight multiplies, of a step; None without."""
    found = {n: value for n, value in leaves.items() if n.startswith("inputs.") or is_drawn(n)}
    for name, value in found.items():
        axis = 1 if is_drawn(name) else 0
        found[name] = value.select(axis, t if value.shape[axis] > 1 else 0)
    return named_inputs(found) or None
