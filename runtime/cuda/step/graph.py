"""CUDA graphs of single steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch

# Captures of two threads would wait for each other's work.
_capturing = threading.Lock()


def capture(
    device: torch.device, runs: Sequence[Callable[[], object]]
) -> list[Callable[[], None]] | None:
    """Return the replays of a graph of each run, on torch's current stream; None off a GPU.

    Each run, which launches on torch's current stream, is made once ahead of its capture, since a
    first one loads kernels. The replays follow each other on one stream, for they share memory.
    """
    if device.type != "cuda":
        return None
    with _capturing, torch.cuda.device(device):
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for run in runs:
                run()
        current.wait_stream(side)
        pool = torch.cuda.graph_pool_handle()
        graphs = []
        for run in runs:
            graph = torch.cuda.CUDAGraph()
            # Other threads may allocate meanwhile.
            with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
                run()
            graphs.append(graph.replay)
        return graphs
