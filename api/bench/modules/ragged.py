"""Contenders of a ragged case: rnnc, and what people do with torch's modules or with TorchRL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from ...runtime.nn.conversion.convert import convert as rnnc_convert
from ..contenders.layers import torchrl_run
from ..inputs import DTYPES
from .cases import Case
from .contenders import Make, Run, rnnc_module, torch_module, training
from .results import OURS


@dataclass(frozen=True)
class RaggedInputs:
    """Tensors that all contenders of a case run on.

    Attributes:
        x: (T, B, features); what lies past a row's end is never read.
        seed: the gradient of the output, (T, B, directions * hidden); 0 past a row's end.
        lengths: (B,) int64 on the CPU, as `pack_padded_sequence` wants them.
        reset: (T, B), whether a row starts anew before a step; never at step 0.
    """

    x: Tensor
    seed: Tensor
    lengths: Tensor
    reset: Tensor


def ragged_inputs(case: Case, device: str) -> RaggedInputs:
    """Draw the tensors of a case."""
    options: dict[str, Any] = {"device": device, "dtype": DTYPES[case.dtype]}
    steps, batch = case.steps, case.batch
    lengths = torch.full((batch,), steps)
    if case.shortest:
        lengths = torch.randint(case.shortest, steps + 1, (batch,))
        lengths[0], lengths[-1] = steps, case.shortest
    reset = torch.rand(steps, batch, device=device) < case.resets
    reset[0] = False
    seed = torch.randn(steps, batch, (1 + case.both) * case.hidden, **options)
    past = torch.arange(steps)[:, None] >= lengths
    seed.masked_fill_(past[..., None].to(device), 0)
    return RaggedInputs(torch.randn(steps, batch, case.hidden, **options), seed, lengths, reset)


def ragged_contenders(case: Case, given: RaggedInputs) -> Iterator[tuple[str, Make]]:
    """Give the name of each contender, and what makes it."""
    torchs = f"nn.{case.module.upper()}"
    yield OURS, lambda: _ours(case, given, ragged=True)
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


def _ours(case: Case, given: RaggedInputs, ragged: bool, on_host: bool = False) -> Run:
    module = rnnc_module(case, str(given.x.device))
    options: dict[str, Tensor] = {}
    if ragged and case.shortest:
        options["lengths"] = given.lengths if on_host else given.lengths.to(given.x.device)
    if ragged and case.resets:
        options["reset"] = given.reset
    return training(module, given.x, given.seed, lambda x: module(x, **options)[0])


def _module(case: Case, given: RaggedInputs) -> torch.nn.RNNBase:
    return torch_module(case, str(given.x.device), DTYPES[case.dtype])


def _packed(case: Case, given: RaggedInputs, convert: bool = False) -> Run:
    """A module on rows that were packed before, as both sides get them."""
    module = _module(case, given)
    if convert:
        rnnc_convert(module, force=True)
    packed, seed = (
        pack_padded_sequence(each, given.lengths, enforce_sorted=False)
        for each in (given.x, given.seed)
    )

    def call(rows: Tensor) -> Tensor:
        found: Tensor = module(packed._replace(data=rows))[0].data
        return found

    return training(module, packed.data, seed.data, call)


def _whole(case: Case, given: RaggedInputs) -> Run:
    module = _module(case, given)
    return training(module, given.x, given.seed, lambda x: module(x)[0])


def _split(case: Case, given: RaggedInputs) -> Run:
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
                states = _cleared(states, given.reset[begin, :, None])
            y, states = module(x[begin:end], states)
            outputs.append(y)
        return torch.cat(outputs)

    return training(module, given.x, given.seed, call)


def _cleared(states: Any, clear: Tensor) -> Any:
    """States, zero in rows that start anew."""
    if isinstance(states, tuple):
        return tuple(_cleared(state, clear) for state in states)
    return torch.where(clear, 0, states)


def _torchrl(case: Case, given: RaggedInputs) -> Run:
    module = _module(case, given)
    # Its rows come first.
    x, seed = (each.transpose(0, 1).contiguous() for each in (given.x, given.seed))
    reset = given.reset.t().contiguous()
    run = torchrl_run(case.module, list(module.parameters()), seed, reset)
    return training(module, x, seed, run)
