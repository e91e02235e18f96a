"""rnnc's contenders: `scan` with each kind of plan, the eager loop, and the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ...cellspec.noise.wrappers import zoneout as with_zoneout
from ...codegen.cuda.kinds import variants
from ...runtime.module.rnn import RNN
from ...runtime.scan.scan import scan
from ..inputs import Call, Inputs
from .contender import Contender

RESETS = 0.01  # of all steps
ZONEOUT = 0.1  # the probability that a unit keeps its states


def scans(
    dtype: str, device: str, wanted: Sequence[str] = (), resets: float = 0.0
) -> Iterator[Contender]:
    """`scan` on the CPU, or with each kind of plan on a GPU.

    Args:
        dtype: of its tensors.
        device: "cpu" or "cuda".
        wanted: kinds of plans; () for all.
        resets: the share of all steps at which a row starts anew.
    """
    if device == "cpu":
        yield Contender("rnnc", dtype, True, "wx ready", scan_call("auto", "auto", resets))
        return
    for variant in wanted or variants():
        run = scan_call("cuda", variant, resets)
        yield Contender(f"rnnc {variant}", dtype, True, "wx ready", run, variant)


def scan_with_resets(dtype: str) -> Contender:
    """`scan` of rows that start anew at 1 % of all steps."""
    name, note = f"rnnc, {RESETS:.0%} resets", "rows start anew on the way"
    return Contender(name, dtype, True, "wx ready", scan_call("auto", "auto", RESETS), note=note)


def scans_with_zoneout(dtype: str) -> Iterator[Contender]:
    """`scan` with zoneout of all states, as in training and as in evaluation."""
    for sample, means in ((True, ""), (False, ", its mean")):
        make = scan_call("auto", "auto", zoneout=ZONEOUT, sample=sample)
        name = f"rnnc, {ZONEOUT:.0%} zoneout{means}"
        yield Contender(name, dtype, True, "wx ready", make, note="states are kept at random")


def eager_loop(dtype: str) -> Contender:
    """The reference: a loop of torch operations."""
    return Contender("eager loop", dtype, False, "wx ready", scan_call("reference", "auto"))


def module(dtype: str) -> Contender:
    """`rnnc.RNN` with its input GEMM."""
    return Contender("rnnc.RNN", dtype, True, "with input GEMM", _module)


def scan_call(
    backend: str, variant: str, resets: float = 0.0, zoneout: float = 0.0, sample: bool = True
) -> Callable[[Inputs], Call]:
    """Return what makes a call of `rnnc.scan`.

    Args:
        backend: of the call.
        variant: likewise.
        resets: the share of all steps at which a row starts anew.
        zoneout: the probability with which a unit keeps its states; 0 for the cell as it is.
        sample: whether the call draws what the cell has a distribution for.
    """

    def prepare(inputs: Inputs) -> Call:
        cell = with_zoneout(inputs.cell, zoneout) if zoneout else inputs.cell
        given = {name: value.transpose(0, 1) for name, value in inputs.given.items()} or None
        reset = torch.rand(inputs.wx.shape[:2], device=inputs.device) < resets if resets else None

        def run() -> Tensor:
            over_time, _ = scan(
                cell,
                inputs.wx,
                inputs.R,
                inputs.b,
                R_diag=inputs.R_diag,
                params=inputs.params,
                inputs=given,
                reset=reset,
                backend=backend,
                variant=variant,
                sample=sample,
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
