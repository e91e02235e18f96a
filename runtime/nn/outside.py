"""Calls of a module between two graphs of Dynamo."""

from __future__ import annotations

from typing import Any

from ..call.marks import outside_of_graphs


def _call(module: Any, input: Any, hx: Any, masks: dict[str, Any]) -> Any:
    """Run a module's forward, of which Dynamo traces nothing."""
    return module.forward(input, hx, **masks)


between_graphs = outside_of_graphs(_call)
