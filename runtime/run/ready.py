"""Calls on tensors that kernels read by address, as they are made the first time."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from ..call.call import Tensors
from ..call.layer_call import fill_of
from ..call.settings import Asked, Settings, call_of
from ..grad.compute import forgets_wx
from ..grad.layers.rows import sizes_of
from ..grad.node import Ready
from ..program.seen import Entry, Seen
from ..targets.registry import TARGETS


def ready_call(settings: Settings, name: str, keep: bool, tensors: Tensors, asked: Asked) -> Ready:
    """Return a call on plain tensors that a target, of the given name, takes.

    `keep` says that a backward may follow; the dropout of `settings` is that of the call. Lengths
    of the tensors are moved to the device of x.
    """
    target, x, ragged = TARGETS[name], tensors.x, tensors.ragged
    # In every mode: so that inference has the kernels of training.
    settings = settings.with_gradients([given.requires_grad for given in tensors.unweighted])
    if ragged is not None:
        ragged = ragged.on(x, fills=not asked.takes_wx)
        tensors = tensors._replace(ragged=ragged)
        fill = ragged.fill
        if ragged.starts is not None and ragged.lengths is not None:
            fill = fill_of(len(x), len(ragged.starts) - 1, len(ragged.lengths))
        settings = settings._replace(choice=settings.choice._replace(fill=fill))
    elif _is_one_step(settings, tensors, asked) and target.runs_one_step(settings.choice):
        asked = asked._replace(single=True)
    tf32 = target.rounds(x.dtype, settings.choice.precision)
    target.begin(x.dtype, x.device.index)
    call = call_of(settings, name, keep, tf32, asked)
    if settings.may_join:
        batch = x.shape[0] if asked.single else sizes_of(call, x, ragged)[1]
        if target.joins(call.directions[0], x, batch, settings.heads, settings.dim):
            call = call_of(settings, name, keep, tf32, asked._replace(joint=True))
    return Ready(Entry(call, forgets_wx(call)), tensors, tensors.flat())


def remember_ready(calls: Seen, key: Hashable, x: Tensor, ready: Ready, options: Hashable) -> None:
    """Remember a call on the caller's x, unless autocast has changed its tensors."""
    if ready.tensors.x is not x or torch.is_autocast_enabled(x.device.type):
        return
    given = [tensor for tensor in ready.flat if tensor is not None]
    call = ready.entry.call
    is_step = not call.single and sizes_of(call, x, ready.tensors.ragged)[0] == 1
    replays = TARGETS[call.target].replays(call, is_step)
    calls.remember(key, given, ready.entry, replays, options)


def _is_one_step(settings: Settings, tensors: Tensors, asked: Asked) -> bool:
    """Return True if a sequence of one step may run by kernels for single steps."""
    if asked.takes_wx or asked.all_states or len(tensors.x) != 1 or tensors.x.ndim != 3:
        return False
    dropout = settings.dropout and settings.layers > 1
    staged = settings.cell.has_stages
    return not (settings.both or dropout or staged or tensors.unweighted)
