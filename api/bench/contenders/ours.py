"""rnnc's contenders: `scan` with each kind of plan, the eager loop, and the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from ...codegen.cuda.kinds import variants
from ...runtime.module.rnn import RNN
from ...runtime.scan.scan import scan
from ..inputs import Call, Inputs
from .contender import Contender


def scans(dtype: str, device: str) -> Iterator[Contender]:
    """`scan` on the CPU, or with each kind of plan on a GPU."""
    if device == "cpu":
        yield Contender("rnnc", dtype, True, "wx ready", scan_call("auto", "auto"))
        return
    for variant in variants():
        run = scan_call("cuda", variant)
        yield Contender(f"rnnc {variant}", dtype, True, "wx ready", run, variant)


def eager_loop(dtype: str) -> Contender:
    """The reference: a loop of torch operations."""
    return Contender("eager loop", dtype, False, "wx ready", scan_call("reference", "auto"))


def module(dtype: str) -> Contender:
    """`rnnc.RNN` with its input GEMM."""
    return Contender("rnnc.RNN", dtype, True, "with input GEMM", _module)


def scan_call(backend: str, variant: str) -> Callable[[Inputs], Call]:
    """What makes a call of `rnnc.scan`."""

    def prepare(inputs: Inputs) -> Call:
        given = {name: value.transpose(0, 1) for name, value in inputs.given.items()} or None

        def run() -> Tensor:
            over_time, _ = scan(
                inputs.cell,
                inputs.wx,
                inputs.R,
                inputs.b,
                R_diag=inputs.R_diag,
                params=inputs.params,
                inputs=given,
                reset=inputs.reset,
                backend=backend,
                variant=variant,
            )
            return over_time[0]

        return Call(run, inputs.d_h.transpose(0, 1), inputs.leaves())

    return prepare


def _module(inputs: Inputs) -> Call:
    row, x = inputs.row, inputs.x
    sizes = (row.hidden, row.hidden)
    module = RNN(inputs.cell, *sizes, heads=row.heads, device=x.device, dtype=x.dtype)
    given = inputs.given or None
    return Call(
        lambda: module(x, inputs=given)[0], inputs.d_h.flatten(2), [x, *module.parameters()]
    )
