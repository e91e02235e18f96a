"""What runs a ragged case: rnnc, and what people do with torch's modules or with TorchRL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from ...cellspec.library import load
from ...runtime.module.rnn import RNN
from ...runtime.nn.conversion.convert import convert as rnnc_convert
from ..contenders.torchrl import torchrl_run
from ..inputs import DTYPES
from .cases import RaggedCase
from .inputs import RaggedInputs

Run = Callable[[], object]


def contenders(case: RaggedCase, given: RaggedInputs) -> Iterator[tuple[str, Callable[[], Run]]]:
    """Give the name of each contender, and a function that makes it and may fail.

    Args:
        case: the case.
        given: its tensors.
    """
    torchs = f"nn.{case.module.upper()}"
    yield "rnnc", lambda: _ours(case, given, ragged=True)
    yield "rnnc, all rows whole", lambda: _ours(case, given, ragged=False)
    if case.shortest and given.x.is_cuda:
        # Lengths that the host sees tell the choice of plans how many steps run.
        yield "rnnc, lengths on the CPU", lambda: _ours(case, given, ragged=True, on_host=True)
    if case.shortest:
        yield "rnnc.nn, packed", lambda: _packed(case, given, convert=True)
        yield f"{torchs}, packed", lambda: _packed(case, given)
    if case.resets:
        yield f"{torchs}, split at resets", lambda: _split(case, given)
        yield f"{torchs}, without resets", lambda: _whole(case, given)
        if given.x.is_cuda:
            yield "TorchRL", lambda: _torchrl(case, given)


def _ours(case: RaggedCase, given: RaggedInputs, ragged: bool, on_host: bool = False) -> Run:
    module = RNN(
        load(case.module),
        case.hidden,
        case.hidden,
        num_layers=case.layers,
        bidirectional=case.both,
        device=given.x.device,
        dtype=DTYPES[case.dtype],
    )
    options: dict[str, Tensor] = {}
    if ragged and case.shortest:
        options["lengths"] = given.lengths if on_host else given.lengths.to(given.x.device)
    if ragged and case.resets:
        options["reset"] = given.reset
    return _training(module, given, lambda x: module(x, **options)[0])


def _module(case: RaggedCase, given: RaggedInputs) -> nn.Module:
    """Torch's module, its weights in one buffer, which cuDNN reads without a copy."""
    make: Any = {"lstm": nn.LSTM, "gru": nn.GRU}[case.module]
    options = {"device": given.x.device, "dtype": DTYPES[case.dtype]}
    module: nn.Module = make(
        case.hidden, case.hidden, case.layers, bidirectional=case.both, **options
    )
    return module


def _packed(case: RaggedCase, given: RaggedInputs, convert: bool = False) -> Run:
    """A module on rows that were packed before, as both sides get them."""
    module = _module(case, given)
    if convert:
        rnnc_convert(module, force=True)
    packed, seed = (
        pack_padded_sequence(each, given.lengths, enforce_sorted=False)
        for each in (given.x, given.seed)
    )
    own = RaggedInputs(packed.data, seed.data, given.lengths, given.reset)

    def call(rows: Tensor) -> Tensor:
        found: Tensor = module(packed._replace(data=rows))[0].data
        return found

    return _training(module, own, call)


def _whole(case: RaggedCase, given: RaggedInputs) -> Run:
    module = _module(case, given)
    return _training(module, given, lambda x: module(x)[0])


def _split(case: RaggedCase, given: RaggedInputs) -> Run:
    """Run the steps between two resets of any row at once, and clear the states of its rows.

    rl_games splits so. sb3-contrib runs each step by itself as soon as one row has a reset.
    """
    module = _module(case, given)
    anew = given.reset.any(1).nonzero().flatten().tolist()
    parts = list(zip([0, *anew], [*anew, len(given.reset)], strict=True))

    def call(x: Tensor) -> Tensor:
        outputs, states = [], None
        for begin, end in parts:
            if begin and states is not None:
                clear = given.reset[begin, :, None]
                states = _cleared(states, clear)
            y, states = module(x[begin:end], states)
            outputs.append(y)
        return torch.cat(outputs)

    return _training(module, given, call)


def _cleared(states: Any, clear: Tensor) -> Any:
    """States, zero in rows that start anew."""
    if isinstance(states, tuple):
        return tuple(_cleared(state, clear) for state in states)
    return torch.where(clear, 0, states)


def _torchrl(case: RaggedCase, given: RaggedInputs) -> Run:
    module = _module(case, given)
    # Its rows come first.
    x, seed = (each.transpose(0, 1).contiguous() for each in (given.x, given.seed))
    reset = given.reset.t().contiguous()
    run = torchrl_run(case.module, list(module.parameters()), seed, reset)
    return _training(module, RaggedInputs(x, seed, given.lengths, reset), run)


def _training(module: nn.Module, given: RaggedInputs, call: Callable[[Tensor], Tensor]) -> Run:
    """A forward and its backward, without the optimiser."""
    parameters = list(module.parameters())

    def train() -> Tensor:
        y = call(given.x)
        y.backward(given.seed)  # type: ignore[no-untyped-call]
        for parameter in parameters:
            parameter.grad = None
        return y

    return train
