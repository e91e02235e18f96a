"""Plain torch loops: one product for all gates that may share it, then pointwise operations.

torch.compile unrolls a loop, so a compiled loop takes part where there are few steps. For any
number of steps the step alone is compiled: Python loops over it, or a CUDA graph holds all steps.

The reference serves any cell and multiplies gate by gate, so it would be a weak contender here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..inputs import Call, Inputs
from ..rows import SHORT_STEPS, BenchError, Row
from .contender import Contender, Kind
from .loop_steps import STEPS, Gates

Loop = Callable[..., Tensor]


def plain_loop(
    cell: str,
    wx: Tensor,
    R: Tensor,
    b: Tensor | None = None,
    params: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """The output h of a cell at all steps, from zero states.

    Args:
        cell: its name.
        wx: (B, T, N, D, Gx), as in `rnnc.scan`.
        R: (Gr, N, D, D).
        b: (Gb, N, D); None for no biases.
        params: (N, D) each.

    Returns:
        (B, T, N, D).

    Example:
        >>> import torch
        >>> from rnnc.bench.contenders.eager_loops import plain_loop
        >>> plain_loop("elman", torch.randn(2, 5, 1, 8, 1), torch.randn(1, 1, 8, 8)).shape
        torch.Size([2, 5, 1, 8])
    """
    return _over_time(_one_step, cell, wx, R, b, params)


def _over_time(
    one_step: Callable[..., Gates],
    cell: str,
    wx: Tensor,
    R: Tensor,
    b: Tensor | None,
    params: Mapping[str, Tensor] | None,
) -> Tensor:
    _, heads, dim, _ = R.shape
    more = list((params or {}).values())
    if b is not None:  # those of gates with input come first
        own = wx.shape[-1]
        wx, more = wx + b[:own].movedim(0, -1), [*b[own:], *more]
    weights = [
        own.permute(1, 3, 0, 2).reshape(heads, dim, -1)
        for own in torch.split(R, list(STEPS[cell].products))
    ]
    states = [wx.new_zeros(len(wx), heads, dim) for _ in range(STEPS[cell].states)]
    outputs = []
    for x in wx.unbind(1):  # the gradient of an index would be as large as all of wx, at each step
        states = one_step(cell, x, weights, states, more)
        outputs.append(states[0])
    return torch.stack(outputs, 1)


def _one_step(cell: str, wx: Tensor, weights: Gates, states: Gates, more: Gates) -> Gates:
    """States after a step: wx (B, N, D, Gx), weights (N, D, gates * D) each, states (B, N, D)."""
    batch, heads, dim = states[0].shape

    def times(number: int, value: Tensor) -> Gates:
        product = torch.bmm(value.transpose(0, 1), weights[number])  # (N, B, gates * D)
        return list(product.transpose(0, 1).reshape(batch, heads, -1, dim).unbind(2))

    return STEPS[cell].run(list(wx.unbind(-1)), times, states, more)


def loops(row: Row, dtype: str, kinds: Sequence[Kind]) -> Iterator[Contender]:
    """The loops that were asked for; a whole one is compiled for few steps alone."""
    for kind, (name, make) in _LOOPS.items():
        if kind in kinds and (kind != "compile" or row.steps <= SHORT_STEPS):
            yield _contender(name, dtype, make, graphed=kind == "compile-graph")


def _loop_over_compiled_step() -> Loop:
    return partial(_over_time, torch.compile(_one_step, fullgraph=True, dynamic=False))


_STEP = "torch.compile of a step"
_LOOPS: dict[Kind, tuple[str, Callable[[], Loop]]] = {
    "torch-loop": ("torch loop", lambda: plain_loop),
    "compile": (
        "torch.compile of a loop",
        lambda: torch.compile(plain_loop, fullgraph=True, dynamic=False),
    ),
    "compile-step": (_STEP, _loop_over_compiled_step),
    # Its backward is another graph.
    "compile-graph": (f"{_STEP}, all steps in a CUDA graph", _loop_over_compiled_step),
}


def _contender(name: str, dtype: str, make: Callable[[], Loop], graphed: bool = False) -> Contender:
    def prepare(inputs: Inputs) -> Call:
        wx, R, b, params, cell = inputs.wx, inputs.R, inputs.b, inputs.params, inputs.row.cell
        if R is None or cell not in STEPS:
            wanted = f"one of {', '.join(STEPS)}"
            raise BenchError(f"no plain loop of {cell}", wanted, "another --contenders")
        if graphed and inputs.device != "cuda":
            wanted = "a GPU, which has CUDA graphs"
            raise BenchError(f"device {inputs.device!r}", wanted, "--device cuda")
        loop, biases = make(), [] if b is None else [b]

        def run(wx: Tensor, R: Tensor, *more: Tensor) -> Tensor:
            named = dict(zip(params, more[len(biases) :], strict=True))
            return loop(cell, wx, R, more[0] if biases else None, named)

        leaves = [wx, R, *biases, *params.values()]
        made: Any = torch.cuda.make_graphed_callables(run, tuple(leaves)) if graphed else run
        return Call(partial(made, *leaves), inputs.d_h.transpose(0, 1), leaves)

    return Contender(name, dtype, False, "wx ready", prepare)
