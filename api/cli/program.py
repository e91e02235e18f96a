"""`rnnc show --what program`: what a call of a module asks of a GPU, which need not be there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..codegen.cuda.limits import limits_of
from ..codegen.shape import Dtype
from ..define import Cell
from ..runtime.call.call import Call, Tensors
from ..runtime.call.settings import Asked, Settings, call_of
from ..runtime.cuda.choose import joins
from ..runtime.cuda.driver.device import describe
from ..runtime.cuda.products.multiply import rounds
from ..runtime.grad.compute import forward_of, gradients_of
from ..runtime.grad.layers.forward import kept_from
from ..runtime.module.rnn import RNN
from ..runtime.program.lower import lower
from ..runtime.program.text import text_of


class Sizes(NamedTuple):
    """Sizes and options of a call of a module that takes as many features as a layer gives."""

    heads: int = 1
    head_dim: int = 64
    dtype: Dtype = "bfloat16"
    layers: int = 1
    steps: int = 1024
    batch: int = 16
    bidirectional: bool = False
    variant: str = "auto"


def program_of(cell: Cell, sizes: Sizes, gpu: str) -> str:
    """The programs of a training call as text, forward and backward; `gpu` is the name of a GPU.

    Raises:
        RnncError: there is no such GPU, or no plan.
    """
    device, rnn = describe(limits_of(gpu)), module_of(cell, sizes, "meta")
    dtype: torch.dtype = getattr(torch, sizes.dtype)
    call = _call(rnn._settings(training=True), sizes, dtype, device)
    x = torch.empty(sizes.steps, sizes.batch, rnn.input_size, dtype=dtype, device="meta")
    shape = sizes.batch, sizes.steps, sizes.heads, sizes.head_dim
    weights = [None if w is None else w.detach() for w in rnn._weights_on(x.device)]
    tensors = Tensors(x, (), weights, None, [x.new_empty(shape) for _ in cell.inputs])
    names = ["x", *(i.name for i in cell.inputs), *(name for name, _ in rnn.named_parameters())]
    return "\n\n".join(_texts(call, tensors, names, torch.device("cuda", device)))


def module_of(cell: Cell, sizes: Sizes, device: str) -> RNN:
    """The module that makes the call."""
    hidden = sizes.heads * sizes.head_dim
    return RNN(
        cell,
        hidden,
        hidden,
        heads=sizes.heads,
        num_layers=sizes.layers,
        bidirectional=sizes.bidirectional,
        variant=sizes.variant,
        device=device,
        dtype=getattr(torch, sizes.dtype),
    )


def _call(settings: Settings, sizes: Sizes, dtype: torch.dtype, device: int) -> Call:
    """The call on a described device, with both directions joined where they would be."""
    tf32 = rounds(dtype, settings.choice.precision)
    call = call_of(settings, "cuda", True, tf32, Asked())
    own = sizes.batch, sizes.heads, sizes.head_dim, dtype, device
    if settings.may_join and joins(call.directions[0], *own):
        return call_of(settings, "cuda", True, tf32, Asked(joint=True))
    return call


def _texts(
    call: Call, tensors: Tensors, names: Sequence[str], device: torch.device
) -> tuple[str, str]:
    """The forward and the backward of a call; `names` are those of its tensors that there are."""
    flat, states = tensors.flat(), [state.name for state in call.directions[0].cell.states]
    given = dict(zip(names, _there(flat), strict=True))

    def forward() -> list[Tensor]:
        results, kept = forward_of(call, tensors)
        return [*results, *kept.flat()]

    program, found = lower(forward, list(given.values()), device)
    count = call.results
    named = ["y", *(f"last {state}" for state in states)]
    kept = {f"kept {number}": t for number, t in enumerate(found[count:], 1)}
    text = f"forward\n{text_of(program, given, [*named, *kept])}"
    d_y = torch.empty_like(found[0])
    gradients = [d_y, *[None] * (count - 1)]

    def backward() -> list[Tensor | None]:
        own = kept_from(call, found[count:])
        return gradients_of(call, tensors, own, (), gradients, _needs(call, tensors), False)

    # What is kept may be an input too; a program has each tensor once.
    read = {"d_y": d_y, **given, **kept}
    unique = {id(tensor): name for name, tensor in reversed(read.items())}
    read = {name: tensor for name, tensor in read.items() if unique[id(tensor)] == name}
    program, _ = lower(backward, list(read.values()), device)
    of = iter(names)
    d_names = [None if tensor is None else f"d_{next(of)}" for tensor in flat]
    return text, f"backward\n{text_of(program, read, d_names)}"


def _needs(call: Call, tensors: Tensors) -> list[bool]:
    """Which gradients of the flat tensors are wanted: none of what a call draws."""
    before = len(tensors.before_weights()) - call.inputs
    return [*[True] * before, *call.gradients_of_inputs, *[True] * len(tensors.weights)]


def _there(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]
