"""Settings of a module, besides its weights, and the call of all layers that follows from them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...cellspec.cell import CellSpec
from .call import Choice, Order, call_of
from .forms import OWN, Form
from .ragged import RaggedKind
from .stack import Stack


class Settings(NamedTuple):
    """Settings of a module, besides its weights.

    Attributes:
        both: whether each layer runs in both directions of time.
        heads: of each direction of a layer.
        dim: units per head.
        dropout: the probability of dropping a feature between layers, in training.
        backend: as in `rnnc.scan`.
        order: whether layers run at the same time.
    """

    cell: CellSpec
    layers: int
    both: bool
    heads: int
    dim: int
    dropout: float
    backend: str
    choice: Choice
    order: Order = "auto"
    form: Form = OWN

    @property
    def may_join(self) -> bool:
        """True if both directions may be one call: never those of a cell with an `Input`."""
        return self.both and not self.cell.inputs

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Choice of each direction of a layer."""
        one = self.choice
        return (one, one._replace(reverse=True)) if self.both else (one,)


@lru_cache(maxsize=512)
def stack_of(
    settings: Settings,
    target: str,
    needs_grad: bool,
    dropout: float,
    tf32: bool,
    ragged: RaggedKind | None = None,
) -> Stack:
    """Return a call, besides its tensors; one object for all equal calls.

    `ragged` is None where all rows run all steps.
    """
    cell = settings.cell
    # The output is the first state; the others are wanted only after the last step.
    wanted = (True, *(False,) * (len(cell.states) - 1))
    kind, masked = (cell.text, target, needs_grad, wanted), ragged is not None
    calls = [call_of(*kind, choice, tf32, masked) for choice in settings.choices]
    values = tuple([state.init for state in cell.states])
    sizes = settings.layers, settings.heads, settings.dim
    own = tuple(calls), *sizes, dropout, values, settings.order
    return Stack(*own, form=settings.form, ragged=ragged)


@lru_cache(maxsize=512)
def made_joint(stack: Stack) -> Stack:
    """Return the same call, with one call for both directions of a layer."""
    return stack._replace(joint=True)
