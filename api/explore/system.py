"""Limits of the process that runs a typed text, and how all that it started is ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

_GIB = 1 << 30
_NO_DUMP = (0, 0)
# Of Linux' `sys/prctl.h`.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def limit(memory: int = _GIB, processor_seconds: int = 30) -> None:
    """Limit this process for good.

    Args:
        memory: bytes of data; and of address space, in addition to what the process has.
        processor_seconds: an end even if nobody is left to end it.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform == "linux":  # macOS takes no limit below what is reserved
        _lower(resource.RLIMIT_DATA, memory)
        # Shared memory is not data.
        _lower(resource.RLIMIT_AS, _reserved() + memory)
    _lower(resource.RLIMIT_CPU, processor_seconds)
    # A cell needs no process and no thread. The kernel exempts the superuser.
    _lower(resource.RLIMIT_NPROC, 0)
    resource.setrlimit(resource.RLIMIT_CORE, _NO_DUMP)


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent ends, so that none gets away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end(pid: int) -> None:
    """Kill a child with its process group, then all that is left of its descendants.

    Args:
        pid: of the child, which leads the group.
    """
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    # One that left the group, and its children, come to this process one after the other.
    while True:
        try:
            done, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not done:
            for child in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.001)


def _children() -> list[int]:
    me, found = str(os.getpid()), []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in brackets may hold anything.
            words = entry.read_text(errors="replace", encoding="utf-8").rpartition(")")[2].split()
            if words[1] == me:
                found.append(int(entry.parent.name))
    return found


def _reserved() -> int:
    """The bytes of address space that this process has."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    return 0


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
