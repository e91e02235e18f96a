"""Calls on tensors that kernels read by address: made the first time, and found again later."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..call.call import Tensors
from ..call.forms import Named
from ..call.layer_call import fill_of
from ..call.plain import may_be_known
from ..call.ragged import Ragged
from ..call.settings import Asked, Settings, call_of
from ..check.masks import check_lengths
from ..grad.compute import forgets_wx
from ..grad.layers.rows import sizes_of
from ..grad.node import Ready, ready_if_alike, ready_of
from ..program.seen import Entry, Seen
from ..targets.registry import TARGETS
from ..targets.target import Target


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
    elif target.takes_steps and _is_one_step(settings, tensors, asked):
        asked = asked._replace(single=True)
    tf32 = target.rounds(x.dtype, settings.choice.precision)
    target.begin(x.dtype, x.device.index)
    call = call_of(settings, name, keep, tf32, asked)
    if settings.may_join:
        batch = x.shape[0] if asked.single else sizes_of(call, x, ragged)[1]
        if target.joins(call.directions[0], x, batch, settings.heads, settings.dim):
            call = call_of(settings, name, keep, tf32, asked._replace(joint=True))
    return ready_of(Entry(call, forgets_wx(call)), tensors)


def remember_ready(calls: Seen, key: Hashable, x: Tensor, ready: Ready, options: Hashable) -> None:
    """Remember a call on the caller's x, unless autocast has changed its tensors."""
    if ready.tensors.x is not x or torch.is_autocast_enabled(x.device.type):
        return
    call = ready.entry.call
    entry = Entry(call, ready.entry.forgets_x, options, TARGETS[call.target].replays(call))
    calls.remember(key, ready.given, entry)


def _is_one_step(settings: Settings, tensors: Tensors, asked: Asked) -> bool:
    """Return True if a sequence of one step may run by kernels for single steps, in less time.

    Another variant or save than those by default asks for kernels of sequences.
    """
    if asked.takes_wx or asked.all_states or len(tensors.x) != 1 or tensors.x.ndim != 3:
        return False
    dropout, choice = settings.dropout and settings.layers > 1, settings.choice
    if settings.both or dropout or settings.cell.has_stages or tensors.unweighted:
        return False
    return choice.variant == "auto" and choice.save == "gates"


# "sequence" and "all states" take x (T, B, input), "packed" (total, input), "step" (B, input).
Kind = str
NO_ROWS = None, None, None  # all rows run all steps


def of_means(kind: Kind, are: bool) -> Kind:
    """Return the kind of calls; those that run the mean of a cell that draws `are` of another."""
    return f"{kind} of means" if are else kind


class Module(Protocol):
    """Module whose calls may be known; with `batch_first`, x of a sequence is (B, T, input)."""

    batch_first: bool
    _parameters: dict[str, Any]

    @property
    def _in_order(self) -> list[Named | None]:
        """Names of the weights, in the order of a call's."""

    def _kind(self, target: Target, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return what may be set between calls of a dtype, of the module and of torch."""


class KnownCalls(Seen):
    """Calls of one module that passed all checks, by their kind: each has checks of its own."""

    def find_sequence(
        self,
        rnn: Module,
        x: Any,
        states: Any,
        rows: tuple[Any, Any, Any] = NO_ROWS,
        unweighted: Callable[[], tuple[Tensor, ...]] = tuple,
        kind: Kind = "sequence",
    ) -> Ready | None:
        """Return `find_call` of a batched call as the caller makes it; `rows` are its masks."""
        if torch.compiler.is_compiling() or not isinstance(x, Tensor) or x.ndim != 3:
            return None
        if x.is_nested or x.layout != torch.strided:
            return None
        ragged = None
        x = x.transpose(0, 1) if rnn.batch_first else x
        if any(each is not None for each in rows):
            ragged = _in_time(rows, rnn.batch_first, x)
            if ragged is None:
                return None
        return self.find_call(kind, rnn, x, states, ragged, unweighted)

    def find_call(
        self,
        kind: Kind,
        rnn: Module,
        x: Any,
        states: Any,
        ragged: Ragged | None = None,
        unweighted: Callable[[], tuple[Tensor, ...]] = tuple,
    ) -> Ready | None:
        """Return what a call becomes, if a like one is known; else None.

        `unweighted` gives the cell's inputs as in `ScanInputs`, or raises what a check says.
        """
        if not may_be_known():
            return None
        try:
            entry = self.find(_key(kind, x, states, ragged))
            if entry is None or entry.options != rnn._kind(TARGETS[entry.call.target], x.dtype):
                return None
            get = rnn._parameters.get
            weights = [None if named is None else get(named.attribute) for named in rnn._in_order]
            tensors = Tensors(x, tuple(states or ()), weights, ragged, unweighted())
            return ready_if_alike(entry, tensors)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
            return None  # no tensors, or another number of them: the checks say what is wrong

    def remember_call(self, kind: Kind, rnn: Module, x: Tensor, ready: Ready) -> None:
        """Remember a call that passed all checks, and became `ready`."""
        tensors, target = ready.tensors, TARGETS[ready.entry.call.target]
        states = tensors.states or None
        key = _key(kind, x, states, tensors.ragged)
        if not kind.startswith("step") and not self.again(key):
            return
        own = {id(parameter) for parameter in rnn._parameters.values()}
        if all(id(w) in own for w in tensors.weights if w is not None):
            remember_ready(self, key, x, ready, rnn._kind(target, x.dtype))


def _key(kind: Kind, x: Tensor, states: Sequence[Tensor] | None, ragged: Ragged | None) -> Hashable:
    """Return what differs between the calls of one loop."""
    wanted = states[0].requires_grad if states else None
    rows = None if ragged is None else (ragged.kind, ragged.fill)
    return kind, x.shape, x.dtype, x.requires_grad, wanted, torch.is_grad_enabled(), rows


def _in_time(rows: tuple[Any, Any, Any], batch_first: bool, x: Tensor) -> Ragged | None:
    """Return lengths and resets of the caller, time first, for x (T, B, input).

    None where a check has to say what is wrong. Lengths are checked here, since their values count.
    """
    lengths, reset, reset_to = rows
    given = [each for each in (reset, *(reset_to or ())) if each is not None]
    if not all(isinstance(each, Tensor) for each in given) or (reset_to and reset is None):
        return None
    if lengths is not None:
        check_lengths(lengths, x.shape[1], x.shape[0])
    if batch_first and reset is not None:
        reset = reset.transpose(0, 1)
        if reset_to is not None:
            reset_to = [v.transpose(1, 2) if v.ndim == 4 else v for v in reset_to]
    return Ragged(lengths, reset, reset_to).on(x)
