"""Ways that calls take on a CPU, as tests see them from outside."""

from __future__ import annotations

import rnnc
import torch
from rnnc.runtime.cpu.target import CpuTarget
from rnnc.runtime.program.seen import Program
from rnnc.runtime.run import by_layer
from rnnc.runtime.run.projected import direction

REFUSED = rnnc.TensorError, rnnc.SecondOrderError, TypeError


class Seen:
    """What a call entered."""

    def __init__(self, monkeypatch):
        self.names = []
        for of, name in (
            *((CpuTarget, name) for name in ("forward", "forward_of_features", "sequence", "step")),
            (Program, "__call__"),
            (direction, "run_call"),
            (by_layer, "scan_reference"),
        ):
            self._note(monkeypatch, of, name)

    def _note(self, monkeypatch, of, name):
        run = getattr(of, name)

        def noting(*arguments, **named):
            result = run(*arguments, **named)
            if result is not None:  # else the target leaves it to its caller
                self.names.append(name)
            return result

        static = isinstance(vars(of)[name], staticmethod)
        monkeypatch.setattr(of, name, staticmethod(noting) if static else noting)

    def way(self):
        """The way that the last call took."""
        names, self.names = set(self.names), []
        if "scan_reference" in names:
            return "reference"
        if "run_call" in names:
            return "layers"
        return "program" if "__call__" in names else "node" if names else "nothing"


def refusal(error):
    """The first line of an error, and what it tells to write."""
    if isinstance(error, TypeError):
        assert "unexpected keyword argument" in str(error)
        return "no argument"
    first, *_, last = str(error).splitlines()
    return f"{first}: {last.partition('write:')[2].strip()}"


def way_of_compiled(function, *arguments, **named):
    """The way of a compiled call: "operator", if its graph has one for all layers and no other."""
    found = []

    def note(graph, _):
        found.extend(str(node.target) for node in graph.graph.nodes if "rnnc" in str(node.target))
        return graph.forward

    torch._dynamo.reset()
    torch.compile(function, backend=note, fullgraph=True)(*arguments, **named)
    names = {name.split(".")[1] for name in found}
    return "operator" if names == {"call"} else str(names)
