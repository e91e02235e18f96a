"""Calls of a module between two graphs of Dynamo.

Imported where Dynamo is already: its import takes a second.
"""

from __future__ import annotations

from typing import Any

import torch


@torch.compiler.disable(reason="rnnc.nn runs its kernels directly, between two graphs")
def between_graphs(module: Any, input: Any, hx: Any, masks: dict[str, Any]) -> Any:
    """What a module's forward gives, of which Dynamo traces nothing.

    Args:
        module: of this package.
        input: of the caller.
        hx: of the caller.
        masks: lengths, resets and reset values of the caller, by name.
    """
    return module.forward(input, hx, **masks)
