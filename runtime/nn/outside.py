"""Calls of a module between two graphs of Dynamo."""

from __future__ import annotations

from typing import Any

from ..call.marks import outside_of_graphs


def _call(module: Any, input: Any, hx: Any, masks: dict[str, Any]) -> Any:
    """What a module's forward gives, of which Dynamo traces nothing.

    Args:
        module: of this package.
        input: of the caller.
        hx: of the caller.
        masks: the caller's lengths, resets and reset values under the names of their arguments.
    """
    return module.forward(input, hx, **masks)


between_graphs = outside_of_graphs(_call)
