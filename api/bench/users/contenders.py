"""Both sides of a user's case: rnnc's module and torch's, with the same settings and input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...cellspec.library import load
from ...runtime.module.rnn import RNN
from ..inputs import DTYPES
from .cases import UserCase

Run = Callable[[], object]

_MODULES = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}
_CELLS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "elman": nn.RNNCell}


def ours(case: UserCase, device: str) -> Run:
    """What rnnc runs in a case.

    Args:
        case: the case.
        device: "cpu" or "cuda".

    Raises:
        TypeError: `rnnc.RNN` cannot do it.
    """
    module = _rnn(case, device)
    if case.stepwise:
        return _run(case, module, device, lambda x: module.step(x)[0])
    called = torch.compile(module) if case.compiled else module
    return _run(case, module, device, lambda x: called(x)[0])


def stepper(case: UserCase, device: str) -> Run | None:
    """`rnn.stepper` in a case of single steps without gradients; None if it has no part in a case.

    Args:
        case: the case.
        device: "cpu" or "cuda".
    """
    module: Any = _rnn(case, device) if case.mode == "step" and hasattr(RNN, "stepper") else None
    if module is None:
        return None
    step = module.stepper(case.batch)
    return _run(case, module, device, lambda x: step(x)[0])


def _rnn(case: UserCase, device: str) -> RNN:
    options: dict[str, Any] = {"bidirectional": True} if case.both else {}
    return RNN(
        load(case.module),
        case.features,
        case.hidden,
        num_layers=case.layers,
        batch_first=case.batch_first,
        device=device,
        dtype=DTYPES[case.dtype],
        **options,
    )


def torchs(case: UserCase, device: str, dtype: torch.dtype) -> Run:
    """What torch runs in the same case: its module, or for single steps its cell.

    Args:
        case: the case.
        device: "cpu" or "cuda".
        dtype: the case's, or a faster one.
    """
    options = {"device": device, "dtype": dtype}
    if case.stepwise:
        cell = _CELLS[case.module](case.features, case.hidden, **options)

        def step(x: Tensor) -> Tensor:
            found: Tensor | tuple[Tensor, Tensor] = cell(x)
            return found[0] if isinstance(found, tuple) else found

        return _run(case, cell, device, step)
    module = _MODULES[case.module](
        case.features,
        case.hidden,
        case.layers,
        batch_first=case.batch_first,
        bidirectional=case.both,
        **options,
    )
    module.flatten_parameters()  # one buffer, which cuDNN reads without a copy
    # cuDNN saves what a backward needs only in training mode.
    module.train(case.trains)
    called = torch.compile(module) if case.compiled else module
    return _run(case, module, device, lambda x: called(x)[0])


def _run(case: UserCase, module: nn.Module, device: str, call: Callable[[Tensor], Tensor]) -> Run:
    """One call as a training loop or an inference loop makes it, without the optimiser."""
    dtype = next(module.parameters()).dtype
    sizes = (case.batch, case.steps) if case.batch_first else (case.steps, case.batch)
    x = torch.randn(
        *(sizes[1:] if case.stepwise else sizes), case.features, device=device, dtype=dtype
    )
    if not case.trains:

        def infer() -> Tensor:
            with torch.no_grad():
                return call(x)

        return infer
    with torch.no_grad():
        seed = torch.randn_like(call(x))
    parameters = list(module.parameters())

    def train() -> Tensor:
        y = call(x)
        y.backward(seed)  # type: ignore[no-untyped-call]
        for parameter in parameters:
            parameter.grad = None
        return y

    return train
