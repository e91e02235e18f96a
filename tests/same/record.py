"""Runs cases with the rnnc that PYTHONPATH has, and writes the result of each case as a line.

`python record.py cpu 0 100 5 record.jsonl` runs the first hundred on the CPU, and times five calls
of each.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rnnc
import torch
from calls import Call, calls_of
from cases import Case, cases, text
from torch import Tensor

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
_WARM, _QUEUED = 2, 4  # calls


def record(case: Case, device: str, repeat: int) -> dict[str, Any]:
    """Run the calls of a case.

    Args:
        case: the case.
        device: "cpu" or "cuda".
        repeat: timed calls; 0 for none.

    Returns:
        "digests" of each call's outputs and gradients by name, or its "error"; the "host" time of
        the last call in us and, on a GPU, its "gpu" time in us and its "peak" of memory in bytes.
    """
    torch.compiler.reset()
    try:
        calls = calls_of(case, device)
        digests = {}
        for number, call in enumerate(calls):
            _poison(device)
            for name, tensor in call().items():
                digests[f"call {number}, {name}"] = digest(tensor)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    found: dict[str, Any] = {"digests": digests}
    if repeat:
        found |= _times(calls[-1], device, repeat)
    return found


def digest(tensor: Tensor) -> str:
    """Return a digest of a tensor's type, shape and bits.

    Args:
        tensor: of any device.
    """
    flat = tensor.detach().cpu().contiguous().view(-1)
    bits = hashlib.blake2b(repr((tensor.dtype, tuple(tensor.shape))).encode(), digest_size=12)
    bits.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return bits.hexdigest()


def _poison(device: str) -> None:
    """Fill what the next allocations get with NaN."""
    sizes = (12, 16, 20, 22) if device == "cuda" else (10, 14, 18)
    kept = [torch.full((1 << size,), torch.nan, device=device) for size in sizes]
    del kept


def _times(call: Call, device: str, repeat: int) -> dict[str, float]:
    """Return the times of a call, and its memory on a GPU."""
    wait: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(_WARM):
        call()
    host = []
    for _ in range(repeat):
        wait()
        begin = time.perf_counter()
        call()
        host.append(1e6 * (time.perf_counter() - begin))
    found = {"host": statistics.median(host)}
    if device == "cuda":
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        gpu = []
        for _ in range(repeat):
            marks[0].record()
            for _ in range(_QUEUED):
                call()
            marks[1].record()
            wait()
            gpu.append(1e3 * marks[0].elapsed_time(marks[1]) / _QUEUED)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        wait()
        found |= {"gpu": statistics.median(gpu)}
        found |= {"peak": torch.cuda.max_memory_allocated() - before}
    return found


def _note_cuda_sources(notes: str) -> None:
    """Note the digest of what NVRTC compiles, wherever in the package it is asked."""
    from cupy_backends.cuda.libs import nvrtc

    create = nvrtc.createProgram

    def noted(source: Any, name: str, headers: Any, names: Any) -> Any:
        parts = [source, *headers, *names]
        content = b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)
        with open(notes, "a", encoding="utf-8") as file:
            file.write(f"{name} {hashlib.sha256(content).hexdigest()}\n")
        return create(source, name, headers, names)

    nvrtc.createProgram = noted


def main() -> None:
    """Run some of the cases."""
    device, first, end, repeat = sys.argv[1], *map(int, sys.argv[2:5])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    notes = os.environ.get("RNNC_SAME_SOURCES")
    if device == "cuda" and notes:
        _note_cuda_sources(notes)
    with Path(sys.argv[5]).open("a", encoding="utf-8") as file:
        for number, case in enumerate(cases(end, device)[first:], first):
            found = record(case, device, repeat)
            line = {"case": number, "text": text(case), "package": rnnc.__file__, **found}
            file.write(json.dumps(line) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
