"""Forward and backward of a call by kernels: a sequence of all layers, or a single step of them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...errors import BackwardError
from ..call.call import Call, Tensors
from ..call.requests import StepBackward
from ..call.tensors import SomeTensors, States, Stepped
from ..targets.registry import TARGETS
from .layers.backward import backward_layers
from .layers.forward import Kept, forward_layers, joined_states
from .layers.rows import layer_rows


def forward_of(call: Call, tensors: Tensors) -> tuple[list[Tensor], Kept]:
    """Return the results of a call, states at all steps and after the last, and what it keeps."""
    if call.single:
        stepped = TARGETS[call.target].step(call, tensors)
        return [stepped.output, *stepped.last], Kept((), ((stepped.saved,),), None)
    return forward_layers(call, tensors)


def inference_of(call: Call, tensors: Tensors) -> list[Tensor]:
    """Return the results of a call that no gradient follows; `tensors` is as in `forward_of`."""
    if call.single:
        output, last, _ = TARGETS[call.target].step(call, tensors)
        return [output, *last]
    whole = call.ragged is None and not (call.takes_wx or call.all_states or call.inputs)
    if whole:
        x, states, weights, *_ = tensors
        found = TARGETS[call.target].sequence(call, x, states, weights)
        if found is not None:
            return [found[0], *found[1]]
    return forward_of(call, tensors)[0]


def gradients_of(
    call: Call,
    tensors: Tensors,
    kept: Kept,
    new: States,
    gradients: SomeTensors,
    needs: Sequence[bool],
    retained: bool,
) -> list[Tensor | None]:
    """Return the gradient of each of the call's flat tensors, by kernels.

    `new` are the new states of a single step, `gradients` of the results of the call, or None for
    zero. Unless `retained`, nobody reads what the kernels saved again.
    """
    form, first = call.form, len(tensors.before_weights())
    if call.inputs:
        _check_inputs(call, needs[first - call.inputs : first])
    last = len(needs) - call.drawn
    wanted = [*needs[:first], *form.needs(needs[first:last], call.parts)]
    if call.single:
        ((saved,),) = kept.runs
        stepped = Stepped(new[0], new, saved)
        backward = StepBackward(stepped, gradients, wanted)
        found = TARGETS[call.target].step_backward(call, tensors, backward)
    else:
        # Inference mode has no versions, by which a failed backward is found out.
        donated = not (retained or any(run[-1].is_inference() for run in kept.runs))
        found = backward_layers(call, tensors, kept, gradients, wanted, donated)
    d_weights = form.gradients(found[first:], needs[first:last], call.parts)
    return [*found[:first], *d_weights, *[None] * call.drawn]


def _check_inputs(call: Call, needs: Sequence[bool]) -> None:
    """Refuse a gradient of an input that the kernels do not give: of a graph that is older."""
    inputs = call.directions[0].cell.inputs
    for given, need, has in zip(inputs, needs, call.gradients_of_inputs, strict=True):
        if need and not has:
            raise BackwardError(
                f"a gradient of the input {given.name}",
                "a call that was traced with a tensor that needs none",
                "a call traced with one that needs it",
                f"torch.export with inputs={{{given.name!r}: tensor.requires_grad_()}}",
            )


def forgets_wx(call: Call) -> bool:
    """Return True if a call takes wx, and its backward does not read it."""
    again = TARGETS[call.target].computes_gates_again
    return call.takes_wx and not again(call.directions[0].choice.save)


def sequences_of(call: Call, tensors: Tensors, kept: Kept) -> list[Tensor]:
    """Return the results at all steps of a call, again from what it kept."""
    run = call.both or call
    steps, batch = kept.runs[-1][0].shape[:2]
    rows = layer_rows(run, (steps, batch), tensors)
    return joined_states(run, rows, kept.runs)
