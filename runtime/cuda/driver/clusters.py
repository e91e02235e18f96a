"""Launches of kernels whose clusters are set at the launch."""

from __future__ import annotations

import ctypes

from ...replay.entries import Running
from ...replay.recorder import recording
from ..launch import Kernel
from ..relaunch import Arguments
from .driver import LaunchConfig, driver_library

_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class _Attribute(ctypes.Structure):
    """`CUlaunchAttribute`; its value is a union of 64 bytes, of which this kind takes three."""

    _fields_ = [
        ("id", ctypes.c_uint),
        ("padding", ctypes.c_char * 4),
        ("size", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    ]


def launch_clusters(
    kernel: Kernel,
    grid: tuple[int, int, int],
    cluster: int,
    arguments: ctypes.Structure,
    stream: int,
) -> None:
    """Launch a kernel in clusters on a stream that stays for good, and that the current one will
    wait for.

    Args:
        kernel: of the current device.
        grid: blocks in x, y and z.
        cluster: blocks per cluster, along x.
        arguments: passed by value.
        stream: the handle of the stream.
    """
    launch = _Launch(kernel, grid, cluster, stream)
    values = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
    launch(ctypes.addressof(values))
    recorder = recording()
    if recorder is not None:
        again = Arguments(recorder, arguments)

        def launch_again(running: Running) -> None:
            address, _kept = again.filled(running)
            launch(address)

        recorder.add(launch_again, again.places, beside=True)


class _Launch:
    """A launch of a kernel in clusters, besides its argument.

    Args:
        kernel: as in `launch_clusters`.
        grid: likewise.
        cluster: likewise.
        stream: likewise.
    """

    __slots__ = ("_check", "_config", "_kept", "_kernel", "_launch")

    def __init__(
        self, kernel: Kernel, grid: tuple[int, int, int], cluster: int, stream: int
    ) -> None:
        from cupy_backends.cuda.api import driver

        attribute = _Attribute(id=_CLUSTER_DIMENSION)
        attribute.size[:] = cluster, 1, 1
        self._config = LaunchConfig(
            *grid, kernel.threads, 1, 1, kernel.shared, stream, ctypes.addressof(attribute), 1
        )
        self._kept = kernel, attribute
        self._kernel = ctypes.c_void_p(kernel.function)
        self._launch, self._check = driver_library().cuLaunchKernelEx, driver.check_status

    def __call__(self, values: int) -> None:
        """Launch it.

        Args:
            values: the address of the address of the argument.
        """
        config, argument = ctypes.byref(self._config), ctypes.c_void_p(values)
        self._check(self._launch(config, self._kernel, argument, None))
