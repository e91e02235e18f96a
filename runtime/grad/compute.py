"""Forward and backward of a call by kernels: a sequence of all layers, or a single step of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ..call.made_masks import MadeMasks
from ..call.stack import Stack, Tensors
from ..call.step_call import StepBackward, StepCall
from ..call.tensors import States, Stepped
from ..targets.stack import target_for
from .layers.backward import backward_layers
from .layers.forward import forward_layers, joined_states
from .layers.joint import joint_stack
from .layers.rows import layer_rows
from .layers.sweep import left_by


class Kept(NamedTuple):
    """Tensors that a forward keeps for its backward, beside the inputs and results of the call.

    Attributes:
        masks: of each dropout, unless the caller drew them.
        runs: of each call of a layer its states at all steps, and what its kernel saved. Of a
            single step alone what its kernels saved.
        made: the masks of lengths and resets.
    """

    masks: Sequence[Any]
    runs: Sequence[Sequence[Any]]
    made: MadeMasks | None

    def flat(self) -> list[Any]:
        """Return all in one list; `kept_from` is the inverse."""
        return [*self.masks, *(tensor for run in self.runs for tensor in run), *(self.made or ())]


def kept_from(stack: Stack, flat: Sequence[Any]) -> Kept:
    """Return what `Kept.flat` flattened."""
    if stack.single:
        return Kept((), (flat,), None)
    made = None
    if stack.ragged is not None:
        count = len(MadeMasks._fields)
        made, flat = MadeMasks(*flat[-count:]), flat[:-count]
    each = len(stack.initial_values) + 1
    first = len(flat) - each * stack.runs
    runs = [flat[place : place + each] for place in range(first, len(flat), each)]
    return Kept(flat[:first], runs, made)


def forward_of(stack: Stack, call: Tensors) -> tuple[list[Tensor], Kept]:
    """Return the results of a call: states at all steps, states after the last; and what it keeps.

    `call` has None for each weight that there is not.
    """
    if stack.single:
        stepped = target_for(stack).step(_step_of(stack, call))
        return [stepped.output, *stepped.last], Kept((), ((stepped.saved,),), None)
    run = forward_layers(stack, call)
    runs = [(*result.states, result.saved) for result in run.results]
    return [*run.sequences, *run.last], Kept(run.masks, runs, run.made)


def inference_of(stack: Stack, call: Tensors) -> list[Tensor]:
    """Return the results of a call, where no gradient is wanted; `call` is as in `forward_of`."""
    whole = not (stack.single or stack.takes_wx or stack.all_states)
    if whole and stack.ragged is None and not stack.inputs:
        x, states, weights, *_ = call
        found = target_for(stack).sequence(stack, x, states, weights)
        if found is not None:
            return [found[0], *found[1]]
    return forward_of(stack, call)[0]


def gradients_of(
    stack: Stack,
    call: Tensors,
    kept: Kept,
    new: States,
    gradients: Sequence[Tensor | None],
    needs: Sequence[bool],
    retained: bool,
) -> list[Tensor | None]:
    """Return the gradient of each of the call's flat tensors, by kernels.

    `new` are the new states of a single step, `gradients` of the results of the call, or None for
    zero. Unless `retained`, nobody reads what the kernels saved again.
    """
    form, first = stack.form, len(call.before_weights())
    last = len(needs) - stack.drawn
    wanted = [*needs[:first], *form.needs(needs[first:last], stack.parts)]
    if stack.single:
        ((saved,),) = kept.runs
        stepped = Stepped(new[0], new, saved)
        backward = StepBackward(_step_of(stack, call), stepped, gradients, wanted)
        found = target_for(stack).step_backward(backward)
    else:
        left = left_by(stack, call, kept.masks, kept.runs, kept.made)
        # Inference mode has no versions, by which a failed backward is found out.
        donated = not (retained or any(run[-1].is_inference() for run in kept.runs))
        found = backward_layers(stack, left, gradients, wanted, donated)
    d_weights = form.gradients(found[first:], needs[first:last], stack.parts)
    return [*found[:first], *d_weights, *[None] * stack.drawn]


def _step_of(stack: Stack, call: Tensors) -> StepCall:
    return StepCall(stack, call.x, call.states, stack.flat_weights(call.weights))


def forgets_wx(stack: Stack) -> bool:
    """Return True if a call takes wx, and its backward does not read it."""
    again = target_for(stack).computes_gates_again
    return stack.takes_wx and not again(stack.calls[0].choice.save)


def sequences_of(stack: Stack, call: Tensors, kept: Kept) -> list[Tensor]:
    """Return the results at all steps of a call, again from what it kept."""
    run = joint_stack(stack) if stack.joint else stack
    steps, batch = kept.runs[-1][0].shape[:2]
    rows = layer_rows(run, (steps, batch), call.ragged, 0 if call.x is None else len(call.x))
    return joined_states(run, rows, kept.runs)
