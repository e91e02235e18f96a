"""Name and shape of a weight that a layer was built with."""

from __future__ import annotations

from typing import NamedTuple


class Named(NamedTuple):
    """Weight that a layer was built with.

    Attributes:
        name: without the layer, `weight_ih` for example.
        attribute: its name in the module.
        gates: (gates, N, D), whose units its rows are, in the order head, gate, unit; None for a
            weight that is no rows of gates.
    """

    name: str
    attribute: str
    shape: tuple[int, ...]
    gates: tuple[int, int, int] | None = None

    @property
    def by_gate(self) -> tuple[int, ...]:
        """Shape gate by gate, (gates, N, D) or (gates, N, D, features)."""
        return self.shape if self.gates is None else (*self.gates, *self.shape[1:])
