"""Calls of a module whose tensors passed all checks before: found again by one comparison."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards
from torch.autograd import forward_ad

from ..autograd.function import have_memory
from ..autograd.settings import Settings
from ..autograd.stack import Stack
from ..check.plain import any_function_mode
from ..module_call import PlainCall
from ..replay.replays import Replays
from ..targets import Target, replays_of
from .weights import Named

_MOST = 64


class Module(Protocol):
    """A module whose calls may be known.

    Attributes:
        batch_first: whether x of a sequence is (B, T, input).
    """

    batch_first: bool
    _parameters: dict[str, Any]

    @property
    def _in_order(self) -> list[Named | None]:
        """The names of the weights, in the order of a call's."""

    def _kind(self, target: Target, dtype: torch.dtype) -> tuple[Any, ...]:
        """What may be set between calls, of the module and of torch, for calls of a dtype."""


class _Known(NamedTuple):
    """A call that passed all checks.

    Attributes:
        options: of the module.
        alike: whether tensors have the types, dtypes, devices, sizes and strides of its tensors,
            and no mode of torch is active that was not. One call of C; it holds no tensor.
        settings: of the module.
        stack: the call.
        needs_grad: whether a backward may follow.
        replays: of such calls.
    """

    options: tuple[Any, ...]
    alike: Callable[..., bool]
    settings: Settings
    stack: Stack
    needs_grad: bool
    replays: Replays | None


class KnownCalls:
    """The calls of one module that passed all checks: sequences, (T, B, input), and single steps,
    (B, input). A copy of the module begins without any.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}
        self._seen: set[Hashable] = set()

    def __deepcopy__(self, memo: Any) -> KnownCalls:
        return KnownCalls()

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownCalls, ()

    def find_sequence(self, rnn: Module, x: Any, states: Any) -> tuple[Settings, PlainCall] | None:
        """As `find`, for a call over time as the caller makes it.

        Args:
            rnn: the module.
            x: of the caller; batched, or nothing is found.
            states: of the caller.
        """
        if torch.compiler.is_compiling() or not isinstance(x, Tensor) or x.ndim != 3:
            return None
        if x.is_nested or x.layout != torch.strided:
            return None
        return self.find(rnn, x.transpose(0, 1) if rnn.batch_first else x, states)

    def find(self, rnn: Module, x: Any, states: Any) -> tuple[Settings, PlainCall] | None:
        """The settings and what a call becomes, if a like one is known.

        Args:
            rnn: the module.
            x: of the caller.
            states: of the caller.
        """
        # A compiler traces the checks; the other two are no part of what `alike` compares.
        if torch.compiler.is_compiling() or any_function_mode() or forward_ad._current_level >= 0:
            return None
        try:
            known = self._known.get(_key(x, states))
            if known is None:
                return None
            options, alike, settings, stack, needs_grad, replays = known
            if options != rnn._kind(stack.target, x.dtype):
                return None
            get = rnn._parameters.get
            weights = [None if named is None else get(named.attribute) for named in rnn._in_order]
            tensors = [x, *(states or ()), *[w for w in weights if w is not None]]
            # Fully sharded modules free memory between calls.
            if not (alike(*tensors) and have_memory(tensors)):
                return None
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
            return None  # no tensors, or another number of them: the checks say what is wrong
        return settings, PlainCall(stack, x, tuple(states or ()), weights, needs_grad, replays)

    def remember(
        self,
        rnn: Module,
        x: Tensor,
        states: Sequence[Tensor] | None,
        settings: Settings,
        call: PlainCall,
    ) -> None:
        """Remember a call that passed all checks.

        Args:
            rnn: the module.
            x: of the caller.
            states: of the caller.
            settings: of the module.
            call: what it became.
        """
        key = _key(x, states)
        if x.ndim == 3 and key not in self._seen:
            # Sequences may have another length each time: only what comes again is worth it.
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen.add(key)
            return
        tensors = [x, *(states or ()), *[w for w in call.weights if w is not None]]
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
        options = rnn._kind(call.stack.target, x.dtype)
        kind = settings, call.stack, call.needs_grad
        self._known[key] = _Known(options, guards.check, *kind, replays_of(call.stack.target))


def _key(x: Tensor, states: Sequence[Tensor] | None) -> Hashable:
    """What differs between the calls of one loop."""
    wanted = states[0].requires_grad if states else None
    return x.shape, x.dtype, x.requires_grad, wanted, torch.is_grad_enabled()
