"""Programs of calls on a device that is not there: their tensors have sizes, and no memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .compact import ALIGNMENT
from .recorder import Recorder
from .seen import Program

_device_of: Any = Tensor.device
_is_cuda_of: Any = Tensor.is_cuda
_DEVICE, _IS_CUDA = _device_of.__get__, _is_cuda_of.__get__


def lower(
    compute: Callable[[], list[Any]], inputs: Sequence[Tensor], device: torch.device
) -> tuple[Program, list[Any]]:
    """Return the program of a call and its results, which have no memory either.

    `inputs` are all tensors that the call reads, on torch's device "meta"; it takes them to be on
    `device`.
    """
    address_of = _Addresses()
    with Recorder(inputs, address_of) as recorder, _OnDevice(device, address_of):
        results = compute()
    parts = recorder.parts(results)
    if parts is None:
        raise RuntimeError("a call that does what no program holds, and so has none")
    return Program(parts, inputs), results


class _Addresses:
    """Addresses of tensors without memory, as if each had some of its own."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._storages: list[Any] = []  # so that no other one takes the place of one that is gone
        self._next = ALIGNMENT

    def __call__(self, tensor: Tensor) -> int:
        if not tensor.numel():  # torch says 0 of one on a device too
            return 0
        storage = tensor.untyped_storage()
        first = self._first.get(storage._cdata)
        if first is None:
            first = self._first[storage._cdata] = self._next
            self._storages.append(storage)
            self._next += (-(-storage.nbytes() // ALIGNMENT) + 1) * ALIGNMENT
        return first + int(tensor.storage_offset()) * tensor.element_size()


class _OnDevice(TorchFunctionMode):
    """Mode in which tensors without memory are on a device, and have addresses."""

    def __init__(self, device: torch.device, address_of: Callable[[Tensor], int]) -> None:
        super().__init__()
        self._device, self._address_of = device, address_of

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is Tensor.data_ptr:
            return self._address_of(args[0])
        if func == _DEVICE:
            return self._device
        if func == _IS_CUDA:
            return self._device.type == "cuda"
        if given.get("device") == self._device:
            given = {**given, "device": "meta"}
        return func(*args, **given)
