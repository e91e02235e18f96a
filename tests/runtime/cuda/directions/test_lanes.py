"""The second stream that a direction of a layer runs on."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from rnnc.runtime.cuda.directions.lanes import ChangeStreams
from rnnc.runtime.cuda.products import multiply
from rnnc.runtime.program.ops import Running


def test_products_of_both_streams_have_memory_of_their_own(monkeypatch):
    """They run at the same time, so they must not share a workspace."""
    one, other = (SimpleNamespace(cuda_stream=handle, device=None) for handle in (1, 2))
    here, launched = [one], []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: here[-1])
    monkeypatch.setattr(torch.cuda, "set_stream", here.append)
    monkeypatch.setattr(
        multiply,
        "lasting_workspace",
        lambda _, stream: SimpleNamespace(data_ptr=lambda: 100 * stream, nbytes=8),
    )

    def launch(_first, _second, _to, stream, workspace, _size):
        launched.append((stream, workspace))

    product, change = multiply.Multiply(None, launch, [16, 32, 48], 0), ChangeStreams()
    running = Running(one.cuda_stream)
    running.beside = other
    for op in (product, change, product, change, product):
        op(running)
    assert launched == [(1, 100), (2, 200), (1, 100)]
    product(Running(3, of=one.cuda_stream))
    assert launched[3:] == [(3, 100)], "a graph uses the memory of the stream that runs it"
