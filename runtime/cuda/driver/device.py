"""Limits of a device, also of one that is only described, and the check that kernels can be built.

Programs for a described device are made, and never run.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import Any

import torch

from ....codegen.cuda.limits import LEAST_CAPABILITY, Limits
from ....errors import NoCudaError

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


@cache
def device_limits(index: int) -> Limits:
    """Return the limits of a CUDA device, as the driver reports them."""
    if is_described(index):
        return described_limits(index)
    from cupy.cuda import runtime

    p = runtime.getDeviceProperties(index)
    capability = (p["major"], p["minor"])
    return Limits(
        name=p["name"].decode(),
        capability=capability,
        multiprocessors=p["multiProcessorCount"],
        shared_per_block=p["sharedMemPerBlockOptin"],
        shared_per_multiprocessor=p["sharedMemPerMultiprocessor"],
        l2=p["l2CacheSize"],
        # Size 16 is a non-portable one of 9.0 and 10.0: CUDA C++ Programming Guide.
        cluster=16 if capability in ((9, 0), (10, 0)) else 8 if capability >= (9, 0) else 1,
        registers=p["regsPerMultiprocessor"],
    )


@cache
def find_cuda(index: int | None) -> None:
    """Raise a `NoCudaError` if kernels cannot be built for a device; None is the current one."""
    nvrtc_version()
    capability = torch.cuda.get_device_capability(index)
    if capability < LEAST_CAPABILITY:
        raise NoCudaError(
            torch.cuda.get_device_name(index),
            f"compute capability {capability[0]}.{capability[1]}",
            f"{LEAST_CAPABILITY[0]}.{LEAST_CAPABILITY[1]} or later",
            'backend="reference"',
        )


def cupy_nvrtc() -> Any:
    """Return CuPy's binding of NVRTC, or raise a `NoCudaError` that says what to install."""
    wanted = _wanted_cuda()
    try:
        import cupy  # noqa: F401
        from cupy_backends.cuda.libs import nvrtc

        version = nvrtc.getVersion()
    except Exception as error:
        # Whatever CuPy's import or its search for the library raises, the remedy is the same.
        raise NoCudaError(
            "CUDA compiler",
            f"{type(error).__name__}: {error}",
            f"CuPy with NVRTC for CUDA {wanted}",
            f'pip install "rnnc[cuda{wanted}]"',
        ) from error
    if torch.version.cuda and str(version[0]) != wanted:
        raise NoCudaError(
            "CUDA compiler",
            f"NVRTC {version[0]}.{version[1]} with torch for CUDA {torch.version.cuda}",
            f"CuPy for CUDA {wanted}, and no other CuPy",
            f'pip uninstall cupy-cuda{version[0]}x; pip install "rnnc[cuda{wanted}]"',
        )
    return nvrtc


_WHEELS = {"12": "nvidia-cuda-nvrtc-cu12", "13": "nvidia-cuda-nvrtc"}


@cache
def nvrtc_version() -> str:
    """Return the version of NVRTC, or raise the error of `cupy_nvrtc`.

    NVRTC is not loaded if its wheel tells the version: to load it takes as long as all else that a
    call from the cache of kernels does first.
    """
    wanted = _wanted_cuda()
    with suppress(ImportError, KeyError):  # a missing package is an ImportError too
        import cupy  # noqa: F401
        from cupy_backends.cuda.api import driver

        if str(driver.get_build_version() // 1000) == wanted:
            return f"wheel {metadata.version(_WHEELS[wanted])}"
    return str(cupy_nvrtc().getVersion())


def _wanted_cuda() -> str:
    """Return the major CUDA version of torch."""
    return (torch.version.cuda or "13.0").split(".")[0]
