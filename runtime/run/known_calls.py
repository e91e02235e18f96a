"""Calls of a module whose tensors passed all checks before: found again by one comparison."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards
from torch.autograd import forward_ad

from ..call.named import Named
from ..call.plain import any_function_mode
from ..call.ragged import Ragged
from ..call.settings import Settings
from ..call.stack import Stack
from ..check.masks import check_lengths
from ..grad.function import have_memory
from ..program.replays import Replays
from ..targets.stack import target_for
from ..targets.target import Target
from .plain_call import PlainCall

# A sequence's x is (T, B, input), of packed rows (total, input), a step's (B, input).
Kind = Literal["sequence", "packed", "step"]
_MOST = 64
NO_ROWS = None, None, None  # all rows run all steps


class Module(Protocol):
    """Module whose calls may be known.

    `batch_first` says that x of a sequence is (B, T, input).
    """

    batch_first: bool
    _parameters: dict[str, Any]

    @property
    def _in_order(self) -> list[Named | None]:
        """Names of the weights, in the order of a call's."""

    def _kind(self, target: Target, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return what may be set between calls of a dtype, of the module and of torch."""


class _Known(NamedTuple):
    """Call that passed all checks.

    `alike` says whether tensors have the types, dtypes, devices, sizes and strides of its tensors,
    and no mode of torch is active that was not. It is one call of C, and holds no tensor.
    """

    options: tuple[Any, ...]
    alike: Callable[..., bool]
    settings: Settings
    stack: Stack
    needs_grad: bool
    replays: Replays | None


class KnownCalls:
    """Calls of one module that passed all checks, by their kind.

    The checks of one method do not answer for another. A copy of the module begins without any
    calls.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}
        self._seen: set[Hashable] = set()

    def __deepcopy__(self, memo: Any) -> KnownCalls:
        return KnownCalls()

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownCalls, ()

    def find_sequence(
        self,
        rnn: Module,
        x: Any,
        states: Any,
        rows: tuple[Any, Any, Any] = NO_ROWS,
        unweighted: Callable[[], tuple[Tensor, ...]] = tuple,
    ) -> tuple[Settings, PlainCall] | None:
        """Return what `find` does, for a call over time as the caller makes it.

        `rows` are lengths, resets and reset values. Nothing is found where x is not batched.
        """
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
        return self.find("sequence", rnn, x, states, ragged, unweighted)

    def find(
        self,
        kind: Kind,
        rnn: Module,
        x: Any,
        states: Any,
        ragged: Ragged | None = None,
        unweighted: Callable[[], tuple[Tensor, ...]] = tuple,
    ) -> tuple[Settings, PlainCall] | None:
        """Return the settings and what a call becomes, if a like one is known; else None.

        `unweighted` gives the cell's inputs as in `ScanInputs`, or raises what a check says.
        """
        # A compiler traces the checks; the other two are no part of what `alike` compares.
        if torch.compiler.is_compiling() or any_function_mode() or forward_ad._current_level >= 0:
            return None
        try:
            known = self._known.get(_key(kind, x, states, ragged))
            if known is None:
                return None
            options, alike, settings, stack, needs_grad, replays = known
            if options != rnn._kind(target_for(stack), x.dtype):
                return None
            get = rnn._parameters.get
            weights = [None if named is None else get(named.attribute) for named in rnn._in_order]
            more = unweighted()
            own = more if ragged is None else (*ragged.tensors(), *more)
            tensors = [x, *(states or ()), *own, *[w for w in weights if w is not None]]
            # Fully sharded modules free memory between calls.
            if not (alike(*tensors) and have_memory(tensors)):
                return None
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
            return None  # no tensors, or another number of them: the checks say what is wrong
        given = tuple(states or ())
        return settings, PlainCall(stack, x, given, weights, needs_grad, replays, ragged, more)

    def remember(
        self,
        kind: Kind,
        rnn: Module,
        x: Tensor,
        states: Sequence[Tensor] | None,
        settings: Settings,
        call: PlainCall,
    ) -> None:
        """Remember a call that passed all checks, and became `call`."""
        key = _key(kind, x, states, call.ragged)
        if kind != "step" and key not in self._seen:
            # Sequences may have another length each time: only what comes again is worth it.
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen.add(key)
            return
        rows = [*([] if call.ragged is None else call.ragged.tensors()), *call.unweighted]
        tensors = [x, *(states or ()), *rows, *[w for w in call.weights if w is not None]]
        own = {id(parameter) for parameter in rnn._parameters.values()}
        if (
            call.x is not x
            or torch.is_autocast_enabled(x.device.type)
            or len({id(tensor) for tensor in tensors}) < len(tensors)
            or any(id(w) not in own for w in call.weights if w is not None)
        ):
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        guards = TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        options = rnn._kind(target_for(call.stack), x.dtype)
        became = settings, call.stack, call.needs_grad
        self._known[key] = _Known(options, guards.check, *became, target_for(call.stack).replays())


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
