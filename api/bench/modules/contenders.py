"""Contenders of a case of modules: rnnc's module and torch's, with equal settings and input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...cellspec.library import load
from ...runtime.module.rnn import RNN
from ...runtime.nn.conversion.convert import convert
from ..inputs import DTYPES
from .cases import Case
from .results import OURS, STEPPER

Run = Callable[[], object]
# Makes what runs, and may fail.
Make = Callable[[], Run]

_MODULES = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}
_CELLS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "elman": nn.RNNCell}


def user_contenders(case: Case, device: str) -> Iterator[tuple[str, Make]]:
    """Give the name of each contender of a user's case, and what makes it.

    torch's have the names of their dtypes: that of the case, and beside bfloat16 float16 too, for
    which cuDNN has faster kernels.
    """
    dtypes = (case.dtype, "float16") if case.dtype == "bfloat16" else (case.dtype,)
    for dtype in dtypes:
        yield dtype, partial(torchs, case, device, DTYPES[dtype])
    yield OURS, partial(ours, case, device)
    if case.mode == "step":
        yield STEPPER, partial(stepper, case, device)


def ours(case: Case, device: str) -> Run:
    """Return what rnnc runs in a case.

    Raises:
        TypeError: `rnnc.RNN` cannot do it.
    """
    module = rnnc_module(case, device)
    if case.stepwise:
        return _run(case, module, device, lambda x: module.step(x)[0])
    called = torch.compile(module) if case.compiled else module
    return _run(case, module, device, lambda x: called(x)[0])


def stepper(case: Case, device: str) -> Run:
    """`rnn.stepper` in a case of single steps without gradients."""
    module = rnnc_module(case, device)
    step = module.stepper(case.batch)
    return _run(case, module, device, lambda x: step(x)[0])


def converted(case: Case, device: str) -> Run:
    """The call of what `rnnc.convert` makes of a case's module, also where it would leave it."""
    module = torch_module(case, device, DTYPES[case.dtype])
    convert(module, force=True)
    module.train(case.trains)
    return _run(case, module, device, lambda x: module(x)[0])


def torchs(case: Case, device: str, dtype: torch.dtype) -> Run:
    """Return what torch runs in the same case: its module, or for single steps its cell."""
    if case.stepwise:
        make = _CELLS[case.module]
        cell = make(case.features, case.hidden, device=device, dtype=dtype)

        def step(x: Tensor) -> Tensor:
            found: Tensor | tuple[Tensor, Tensor] = cell(x)
            return found[0] if isinstance(found, tuple) else found

        return _run(case, cell, device, step)
    module = torch_module(case, device, dtype)
    # cuDNN saves what a backward needs only in training mode.
    module.train(case.trains)
    called = torch.compile(module) if case.compiled else module
    return _run(case, module, device, lambda x: called(x)[0])


def rnnc_module(case: Case, device: str) -> RNN:
    """`rnnc.RNN` with the settings of a case."""
    return RNN(
        load(case.module),
        case.features,
        case.hidden,
        num_layers=case.layers,
        proj_size=case.projected,
        bidirectional=case.both,
        batch_first=case.batch_first,
        device=device,
        dtype=DTYPES[case.dtype],
    )


def torch_module(case: Case, device: str, dtype: torch.dtype) -> nn.RNNBase:
    """Torch's module with the settings of a case, its weights in one buffer.

    cuDNN reads such a buffer without a copy.
    """
    make: Any = _MODULES[case.module]
    module: nn.RNNBase = make(
        case.features,
        case.hidden,
        case.layers,
        batch_first=case.batch_first,
        bidirectional=case.both,
        **({"proj_size": case.projected} if case.projected else {}),
        device=device,
        dtype=dtype,
    )
    module.flatten_parameters()
    return module


def training(module: nn.Module, x: Tensor, seed: Tensor, call: Callable[[Tensor], Tensor]) -> Run:
    """A forward and its backward as a training loop makes them, without the optimiser."""
    parameters = list(module.parameters())

    def train() -> Tensor:
        y = call(x)
        y.backward(seed)  # type: ignore[no-untyped-call]
        for parameter in parameters:
            parameter.grad = None
        return y

    return train


def _run(case: Case, module: nn.Module, device: str, call: Callable[[Tensor], Tensor]) -> Run:
    """One call as a training loop or an inference loop makes it."""
    dtype = next(module.parameters()).dtype
    sizes = [case.batch] if case.stepwise else [case.steps, case.batch]
    sizes = sizes[::-1] if case.batch_first else sizes
    x = torch.randn(*sizes, case.features, device=device, dtype=dtype)

    def infer() -> Tensor:
        with torch.no_grad():
            return call(x)

    return training(module, x, torch.randn_like(infer()), call) if case.trains else infer
