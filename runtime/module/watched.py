"""Parameters of a module whose memory a stepper reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ...errors import TensorError
from ..call.plain import all_plain, guard_of


class Watched:
    """Parameters of a module as they were, to be checked for changes.

    Attributes of the module that hold a tensor which is computed at every call are left out.
    """

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        self._owner = module._parameters
        found = [(name, self._owner.get(name)) for name in names]
        self._named = [(name, tensor) for name, tensor in found if tensor is not None]
        for name, tensor in self._named:
            if not all_plain((tensor,)):
                raise TensorError(
                    name,
                    f"a {type(tensor).__name__} on {tensor.device}, sharded or without memory",
                    "a parameter that a stepper can read by its address",
                    "rnn.stepper(...) of a module that is not sharded",
                )
        self._tensors: list[Tensor] = [tensor for _, tensor in self._named]
        self._places = [tensor.data_ptr() for tensor in self._tensors]
        self._kinds = [_kind(tensor) for tensor in self._tensors]
        self._alike = guard_of(self._tensors)

    def __len__(self) -> int:
        return len(self._named)

    def check(self) -> None:
        """Raise a `TensorError` if a parameter was replaced, moved, cast or sharded."""
        owner = self._owner
        for name, tensor in self._named:
            if owner.get(name) is not tensor:
                raise self._error(name, "another parameter than when")
        if [tensor.data_ptr() for tensor in self._tensors] != self._places:
            self._find("memory elsewhere than when")
        if not self._alike(*self._tensors):
            self._find("another dtype, device or shape than when")
            # What differs does not matter, such as whether a gradient is wanted.
            self._alike = guard_of(self._tensors)

    def _find(self, found: str) -> None:
        for (name, tensor), place, kind in zip(self._named, self._places, self._kinds, strict=True):
            if _kind(tensor) != kind or tensor.data_ptr() != place:
                raise self._error(name, found)

    def _error(self, name: str, found: str) -> TensorError:
        return TensorError(
            name,
            f"{found} the stepper was made",
            "the same parameter, changed in place at most",
            "rnn.stepper(...) after the module was changed",
        )


def _kind(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.device, tensor.shape, tensor.stride()
