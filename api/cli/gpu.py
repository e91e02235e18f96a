"""Refuses commands that need a GPU where torch finds none."""

from __future__ import annotations

import torch

from ..errors import RnncError


class NoGpuError(RnncError):
    """The caller asked for a GPU, and there is none."""


def need_gpu(command: str, instead: str) -> None:
    """Refuse a command that needs a GPU where there is none.

    Args:
        command: the command.
        instead: what to write on a machine without a GPU.

    Raises:
        NoGpuError: torch finds no CUDA device.
    """
    if not torch.cuda.is_available():
        raise NoGpuError(
            command,
            "no CUDA device that torch can use",
            "an NVIDIA GPU of compute capability 8.0 or newer",
            instead,
        )
