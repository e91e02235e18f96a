"""Graphs that Inductor keeps on disk are found by the version of rnnc that they were made by."""

from __future__ import annotations

import rnnc
import torch
from rnnc.runtime.call import settings


def module():
    return rnnc.RNN(rnnc.cells.elman, 3, 4), torch.randn(2, 1, 3)


def test_another_version_compiles_again(monkeypatch):
    # A second to import, which no collection of tests should wait for.
    from torch._dynamo.utils import counters
    from torch._inductor.utils import fresh_cache

    run, x = module()

    def found():
        """Whether the graphs came from the disk."""
        torch._dynamo.reset()
        counters.clear()
        torch.compile(run)(x)[0].sum().backward()
        hits = counters["aot_autograd"]["autograd_cache_hit"]
        hits += counters["inductor"]["fxgraph_cache_hit"]
        assert bool(hits) != bool(counters["inductor"]["fxgraph_cache_miss"])
        return bool(hits)

    with fresh_cache():
        assert not found()
        assert found()
        monkeypatch.setattr(settings, "runtime_digest", lambda: "another")
        assert not found()
        assert found()


def test_a_scan_in_a_graph_has_the_version():
    texts = []

    def backend(graph, inputs):
        texts.extend(a for node in graph.graph.nodes for a in node.args if isinstance(a, str))
        return graph

    torch._dynamo.reset()
    wx, R = torch.randn(1, 2, 1, 4, 1), torch.randn(1, 1, 4, 4)
    torch.compile(rnnc.scan, backend=backend)(rnnc.cells.elman, wx, R)
    assert [each.partition("\t")[2] for each in texts] == [settings.runtime_digest()]
    # torch 2.11 writes them into comments of its code, each of which is one line.
    assert not any("\n" in text for text in texts)


def test_an_exported_graph_is_of_no_version():
    rnn, x = module()
    nodes = torch.export.export(rnn, (x,)).graph.nodes
    (call,) = [each for node in nodes for each in node.args if isinstance(each, str)]
    assert settings.read_call(call).settings.cell.text == rnn.cell.text
    assert "\t" not in call
