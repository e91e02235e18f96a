"""Functions of a few comparisons or none, for which no special unit is needed."""

from __future__ import annotations

QUICK = frozenset(
    "abs clip clip_gradient hardtanh heaviside leaky_relu maximum minimum relu relu6 sign square"
    " stop_gradient where with_gradient".split()
)
