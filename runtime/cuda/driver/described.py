"""GPUs that are described by their limits alone: programs for them are made, and never run."""

from __future__ import annotations

from ....codegen.cuda.limits import Limits

# The numbers of such devices begin here: torch's device numbers end at 127.
_FIRST, _LAST = 100, 127
_limits: list[Limits] = []


def describe(limits: Limits) -> int:
    """Return the device number that stands for a GPU with such limits in this process."""
    if limits not in _limits:
        if len(_limits) > _LAST - _FIRST:
            raise ValueError(f"{len(_limits)} GPUs are described already, and no more have numbers")
        _limits.append(limits)
    return _FIRST + _limits.index(limits)


def is_described(device: int | None) -> bool:
    """Return True if a device number stands for such a GPU."""
    return device is not None and device >= _FIRST


def described_limits(device: int) -> Limits:
    """Return the limits of such a GPU, by its number."""
    return _limits[device - _FIRST]
