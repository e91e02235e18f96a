"""Errors of each contender against float64, where it computes what rnnc does.

A layer gets the weights and the input of torch's module, rounded to its dtype. The truth is torch's
module in float64 on the same numbers. A recurrence without a product is compared with a loop in
float64. The error of a tensor is the norm of the difference over the norm of the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.func import functional_call

from ...cellspec.library import load
from ...runtime.nn.modules import GRU, LSTM
from ...runtime.scan.scan import scan
from ..cases import Float32, float32_products
from ..contenders.contender import Kind
from ..contenders.layers import MODULES, haste_layer, torchrl_run
from ..contenders.scans_over_time import SCAN_BLOCK, hgrn_kernel, scan_kernel
from ..errors import reason
from ..inputs import DTYPES
from ..time_limit import within
from ..timing import free

# From all that is given, by name, to h at all steps; of a layer from "x", (T, B, H), then weights.
Scan = Callable[[dict[str, Tensor]], Tensor]
_OURS = {"lstm": LSTM, "gru": GRU}
_SPANS = 8
# Haste's gates, each as the place in torch's order.
_HASTE_ORDER = {"lstm": (0, 2, 1, 3), "gru": (1, 0, 2)}


@dataclass
class Check:
    """Comparison of a contender's results: with what, and how far they were from it.

    Attributes:
        cell: "lstm", "gru", or "h = a h + b".
        name: of the contender.
        dtype: of its tensors; of float32 with the way that torch's modules and rnnc round products.
        sizes: units, batch rows and steps.
        errors: relative, by the tensor's name; gradients begin with `d_`.
        over_time: relative errors of h, in as many parts of time as there are numbers.
        failure: why there are none.
    """

    cell: str
    name: str
    dtype: str
    sizes: tuple[int, int, int]
    errors: dict[str, float] = field(default_factory=dict)
    over_time: list[float] = field(default_factory=list)
    failure: str = ""


def check_all(
    device: str, sizes: tuple[int, int, int], kinds: Collection[Kind], ready: float = math.inf
) -> Iterator[Check]:
    """Compare the layers and the recurrences of some contenders.

    Args:
        device: "cpu" or "cuda".
        sizes: units of a layer, in one head; batch rows; steps.
        kinds: of contenders.
        ready: seconds that one may take, compilation included.
    """
    asked, cuda = (device, sizes, kinds, ready), device == "cuda"
    for cell in ("lstm", "gru"):
        for dtype in ("float32", "bfloat16", "float16") if cuda else ():
            yield from _layers(*asked, cell, dtype)
        yield from _layers(*asked, cell, "float32", "ieee")
    for dtype in ("float32", "bfloat16") if cuda else ("float32",):
        yield from _linear(*asked, dtype)


def _layers(
    device: str,
    sizes: tuple[int, int, int],
    kinds: Collection[Kind],
    ready: float,
    cell: str,
    dtype: str,
    float32: Float32 = "tf32",
) -> Iterator[Check]:
    exact_products = float32 == "ieee" or dtype != "float32"
    own: set[Kind] = {"auto", "nn"}
    own |= {"torchrl"} if dtype == "float32" and (device == "cpu" or not exact_products) else set()
    single = dtype == "float32" and exact_products
    own |= {"haste"} if single or (dtype == "float16" and cell == "gru") else set()
    if not own & set(kinds):
        return
    units, batch, steps = sizes
    to: dict[str, Any] = {"device": device, "dtype": DTYPES[dtype]}
    module = MODULES[cell][1](units, units).to(**to)
    given = {name: p.detach() for name, p in module.named_parameters()}
    x, seed = (torch.randn(steps, batch, units, **to) for _ in range(2))

    torchs = _of_module(module)
    truth = _of_module(MODULES[cell][1](units, units).to(device, torch.float64))
    wanted = _results(truth, _doubles({"x": x, **given}), seed.double())
    contenders: dict[Kind, tuple[str, Callable[[], Scan]]] = {
        "auto": ("rnnc", lambda: _ours(cell, units, to)),
        "nn": (MODULES[cell][0], lambda: torchs),
        "torchrl": ("TorchRL", lambda: _torchrl(cell, seed)),
        "haste": ("Haste", lambda: _haste(cell, units, device, dtype)),
    }
    shown = f"{dtype} ({float32})" if dtype == "float32" else dtype
    with float32_products(float32):
        for kind, (name, make) in contenders.items():
            if kind in own and kind in kinds:

                def results(make: Callable[[], Scan] = make) -> dict[str, Tensor]:
                    return _results(make(), {"x": x, **given}, seed)

                yield _compared(Check(cell, name, shown, sizes), results, wanted, ready)
    free(device)


def _of_module(module: nn.Module) -> Scan:
    return lambda given: functional_call(module, _weights(given), (given["x"],))[0]


def _weights(given: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in given.items() if name != "x"}


def _ours(cell: str, units: int, to: dict[str, Any]) -> Scan:
    return _of_module(_OURS[cell](units, units, **to))


def _torchrl(cell: str, like: Tensor) -> Scan:
    rows = like.transpose(0, 1).contiguous()
    torchrl_run(cell, [], rows)  # whether it can be imported

    def run(given: dict[str, Tensor]) -> Tensor:
        call = torchrl_run(cell, list(_weights(given).values()), rows)
        return call(given["x"].transpose(0, 1).contiguous()).transpose(0, 1)

    return run


def _haste(cell: str, units: int, device: str, dtype: str) -> Scan:
    layer, order = haste_layer(cell, units, device, dtype), _HASTE_ORDER[cell]

    def run(given: dict[str, Tensor]) -> Tensor:
        """Its weights are functions of torch's, so that gradients have torch's names."""
        w_ih, w_hh, b_ih, b_hh = (
            torch.cat([w.chunk(len(order))[gate] for gate in order])
            for w in _weights(given).values()
        )
        own = {"kernel": w_ih.t(), "recurrent_kernel": w_hh.t()}
        own |= {"bias": b_ih + b_hh} if cell == "lstm" else {"bias": b_ih, "recurrent_bias": b_hh}
        return functional_call(layer.train(), own, (given["x"],))[0]  # type: ignore[no-any-return]

    return run


def _linear(
    device: str, sizes: tuple[int, int, int], kinds: Collection[Kind], ready: float, dtype: str
) -> Iterator[Check]:
    """`h = a h + b`, which HGRN is once its activations are computed."""
    units, batch, steps = sizes
    to: dict[str, Any] = {"device": device, "dtype": DTYPES[dtype]}
    c, f = (torch.randn(batch, steps, units, **to) for _ in range(2))
    seed = torch.randn(batch, steps, units, **to)
    kept = torch.sigmoid(f.double())
    a, b = kept.to(DTYPES[dtype]), ((1 - kept) * F.silu(c.double())).to(DTYPES[dtype])
    g = F.logsigmoid(f.double()).to(DTYPES[dtype])

    def hgrn(given: dict[str, Tensor], backend: str = "auto") -> Tensor:
        wx = torch.stack([given["c"], given["f"]], -1)[:, :, None]  # (B, T, 1, units, 2)
        return scan(load("hgrn"), wx, backend=backend)[0][0][:, :, 0]

    def over_time(given: dict[str, Tensor]) -> Tensor:
        full = (F.pad(each.mT, (0, -steps % SCAN_BLOCK)).contiguous() for each in given.values())
        return scan_kernel(device)(*full)[..., :steps].mT

    def loop(given: dict[str, Tensor]) -> Tensor:
        h, outputs = torch.zeros_like(given["b"][:, 0]), []
        for t in range(steps):
            h = given["a"][:, t] * h + given["b"][:, t]
            outputs.append(h)
        return torch.stack(outputs, 1)

    cases: dict[Kind, tuple[str, Scan, Scan, dict[str, Tensor]]] = {
        "auto": ("rnnc hgrn", hgrn, partial(hgrn, backend="reference"), {"c": c, "f": f}),
        "fla": (
            "fla chunk_hgrn",
            lambda given: hgrn_kernel(device)(given["x"], given["g"]),
            lambda given: loop({"a": given["g"].exp(), "b": given["x"]}),
            {"x": b, "g": g},
        ),
        "accelerated-scan": ("accelerated-scan", over_time, loop, {"a": a, "b": b}),
    }
    for kind, (name, run, exact, given) in cases.items():
        if kind in kinds:
            wanted = _results(exact, _doubles(given), seed.double())
            found, results = Check("h = a h + b", name, dtype, sizes), partial(_results, run, given)
            yield _compared(found, partial(results, seed), wanted, ready, time=1)
    free(device)


def _doubles(given: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: each.double() for name, each in given.items()}


def _results(run: Scan, given: dict[str, Tensor], seed: Tensor) -> dict[str, Tensor]:
    """The output, and the gradients of all that is given, by name."""
    leaves = {name: t.detach().clone().requires_grad_() for name, t in given.items()}
    y = run(leaves)
    gradients = torch.autograd.grad(y, list(leaves.values()), seed)
    names = [f"d_{name}" for name in leaves]
    return {"h": y.detach(), **dict(zip(names, gradients, strict=True))}


def _compared(
    found: Check,
    results: Callable[[], dict[str, Tensor]],
    wanted: dict[str, Tensor],
    ready: float,
    time: int = 0,
) -> Check:
    """The errors of what a contender gives, or why it gives nothing."""
    try:
        with within(ready):
            got = results()
    except Exception as error:
        # Any error of a contender is a line of the table, and the others go on.
        found.failure = reason(error)
        return found
    found.errors = {name: _error(got[name], each) for name, each in wanted.items()}
    parts = zip(got["h"].chunk(_SPANS, time), wanted["h"].chunk(_SPANS, time), strict=True)
    found.over_time = [_error(each, exact) for each, exact in parts]
    return found


def _error(got: Tensor, wanted: Tensor) -> float:
    return float((got.double() - wanted).norm() / wanted.norm())
