"""Times the host in compiled calls of `rnnc.RNN`, in eager ones, and in empty compiled operators.

    python benchmarks/compiled_calls.py [--device cuda] [--units 512] [--json table.json]

LSTM, B 2, T 4. A figure is the time until a call returned to Python, in µs: the median of calls in
turns. Two empty operators, of a forward and its backward, get and give tensors as rnnc's do. Goal:
compiled calls take at most as long as eager ones and those of the empty operators together.
"""

from __future__ import annotations

import json
import sys
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import rnnc
import torch
import typer
from rnnc.bench.modules.contenders import training
from rnnc.bench.report import Record
from rnnc.bench.timing import timed, warm_up
from rnnc.bench.turns import in_turns
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

STATES = 2
library: Any = torch.library.Library("rnnc_empty", "FRAGMENT")
sizes_of = cache(json.loads)


def call(tensors: Any, text: str) -> list[Tensor]:
    """Give tensors of the sizes in the text."""
    return [tensors[0].new_empty(size) for size in sizes_of(text)]


def call_backward(gradients: Any, tensors: Any, results: Any, needs: Any, text: str) -> Any:
    """Give a gradient for each tensor that needs one."""
    return [t.new_empty(t.shape) for t, need in zip(tensors, needs, strict=True) if need]


for schema, compute in zip(
    (torch.ops.rnnc.call.default._schema, torch.ops.rnnc.call_backward.default._schema),
    (call, call_backward),
    strict=True,
):
    library.define(str(schema).removeprefix("rnnc::"))
    library.impl(compute.__name__, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"rnnc_empty::{compute.__name__}", compute, lib=library)


def save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    """Save what rnnc's operator saves."""
    kept = output[1 + STATES :]
    ctx.mark_non_differentiable(*kept)
    ctx.set_materialize_grads(False)
    ctx.text, ctx.first = inputs[1], len(inputs[0])
    ctx.save_for_backward(*inputs[0], output[0], *kept)


def differentiate(ctx: Any, gradients: Any) -> tuple[Any, ...]:
    """Call the operator of the backward."""
    saved, needs = ctx.saved_tensors, ctx.needs_input_grad[0]
    given = list(gradients[: 1 + STATES]), list(saved[: ctx.first]), list(saved[ctx.first :])
    found = iter(torch.ops.rnnc_empty.call_backward(*given, needs, ctx.text))
    return [next(found) if need else None for need in needs], None


torch.library.register_autograd("rnnc_empty::call", differentiate, setup_context=save, lib=library)


class Noted(TorchDispatchMode):
    """Note of the sizes that rnnc's operator gives, as text."""

    text = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is torch.ops.rnnc.call.default:
            self.text = json.dumps([each.shape for each in found])
        return found


class Empty(nn.Module):
    """A module that calls the empty operators, with the parameters of another."""

    def __init__(self, rnn: rnnc.RNN, x: Tensor) -> None:
        super().__init__()
        self.weights, texts = nn.ParameterList(rnn.parameters()), []
        for keep in (False, True):
            with torch.set_grad_enabled(keep), Noted() as noted:
                rnn(x)
            texts.append(noted.text)
        self.without, self.with_gradients = texts

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return empty results."""
        text = self.with_gradients if torch.is_grad_enabled() else self.without
        # One by one, since torch 2.11 cannot trace a ParameterList that is unpacked.
        weights = [self.weights[place] for place in range(len(self.weights))]
        found = torch.ops.rnnc_empty.call.default([x, *weights], text)
        return found[0], tuple(found[1 : 1 + STATES])


def clocks(module: nn.Module, x: Tensor, device: str) -> dict[str, Any]:
    """Return what times a call of each kind, behind one that fills the processor's caches."""
    train = training(module, x, torch.randn_like(x), lambda x: module(x)[0])
    runs = {"no_grad": torch.no_grad()(module.__call__), "forward": module.__call__}
    calls = {name: partial(run, x) for name, run in runs.items()} | {"with backward": train}
    for run in calls.values():
        warm_up(run, device, 20)
    return {name: lambda run=run: (run(), timed(run, device)[1])[1] for name, run in calls.items()}


def main(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    units: Annotated[int, typer.Option(help="Of the module, and features of its input.")] = 64,
    repeat: Annotated[int, typer.Option(help="Timed calls of each.")] = 500,
    output: Annotated[Path | None, typer.Option("--json", help="A file for the table.")] = None,
) -> None:
    """Measure, and print a table."""
    torch.set_num_threads(1)
    record, table = Record(device, f"python {' '.join(sys.argv)}"), {}
    record.into(output)
    rnn, x = rnnc.RNN("lstm", units, units, device=device), torch.randn(4, 2, units, device=device)
    compiled = [torch.compile(each, fullgraph=True) for each in (rnn, Empty(rnn, x))]
    sides = [clocks(module, x, device) for module in (rnn, *compiled)]
    print(f"{'':14} {'eager':>6} {'compiled':>8} {'empty':>6} {'over':>6}")
    for kind in sides[0]:
        found = in_turns({i: side[kind] for i, side in enumerate(sides)}, repeat, shuffled=True)
        eager, ours, empty = table[kind] = [1e3 * median(took) for took in found.values()]
        print(f"{kind:14} {eager:6.0f} {ours:8.0f} {empty:6.0f} {ours - eager - empty:6.0f}")
    record.write(microseconds=table)


if __name__ == "__main__":
    typer.run(main)
