"""Settings of a module, besides its weights, and the call of all layers that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ...cellspec.cell import CellSpec
from .call import Call, as_one_direction
from .forms import OWN, Form
from .layer_call import Choice, LayerCall, Order, layer_call_of
from .marks import constant_in_graphs
from .ragged import RaggedKind


class Settings(NamedTuple):
    """Settings of a module, besides its weights; `backend` is as in `rnnc.scan`."""

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
        return self.both and len(self.cell.inputs) == 0  # torch.compile traces no `not` here

    def with_gradients(self, wanted: Sequence[bool]) -> Settings:
        """Return the settings of a call that gives the gradients of those inputs that are wanted.

        `wanted` is of each of the cell's inputs. Kernels of others write none of it.
        """
        return self._replace(cell=_with_gradients(self.cell, tuple(wanted))) if wanted else self

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Choice of each direction of a layer."""
        one = self.choice
        return (one, one._replace(reverse=True)) if self.both else (one,)

    @property
    def reverses(self) -> tuple[bool, ...]:
        """Directions of a layer: True for each that runs from the last step to the first."""
        return tuple([choice.reverse is True for choice in self.choices])


@lru_cache(maxsize=512)
def _with_gradients(cell: CellSpec, wanted: tuple[bool, ...]) -> CellSpec:
    """Return a cell as `Settings.with_gradients` has it; what is usual for an input is not said."""
    fields = [
        {"gradient": None if want is (given.draw is None) else want}
        for given, want in zip(cell.inputs, wanted, strict=True)
    ]
    pairs = zip(cell.inputs, fields, strict=True)
    found = tuple([given.model_copy(update=own) for given, own in pairs])
    return cell if found == cell.inputs else cell.model_copy(update={"inputs": found})


def one_direction(settings: Settings, cell: CellSpec, choice: Choice) -> Settings:
    """Return the settings of a call of one direction of a layer, with weights as in `OWN`."""
    return Settings(
        cell, 1, False, settings.heads, settings.dim, 0.0, settings.backend, choice, form=OWN
    )


class Asked(NamedTuple):
    """Tensors of a call and results that it is asked for, as in `Call`."""

    ragged: RaggedKind | None = None
    given: bool = False
    takes_wx: bool = False
    all_states: bool = False
    single: bool = False
    drawn: bool = False
    samples: int = 0
    joint: bool = False


OUTPUT = Asked()  # the output alone is wanted at all steps, of x


@constant_in_graphs
def states_asked(every: bool) -> Asked:
    """Return a call of x for all states at all steps, or for the output alone.

    Graphs have a guard for each field of a tuple that they make themselves.
    """
    return Asked(all_states=every)


@lru_cache(maxsize=512)
def call_of(
    settings: Settings,
    target: str,
    needs_grad: bool,
    tf32: bool,
    asked: Asked = OUTPUT,
) -> Call:
    """Return a call, one object for all equal ones; `settings` have its dropout."""
    cell, ragged = settings.cell, asked.ragged
    others = len(cell.states) - 1

    def directions(every: bool) -> tuple[LayerCall, ...]:
        # The output is the first state; the others are wanted at all steps only on request.
        kind = cell.text, target, needs_grad, (True, *(every,) * others)
        choices = settings.choices
        return tuple([layer_call_of(*kind, choice, tf32, ragged is not None) for choice in choices])

    values = tuple([state.init for state in cell.states])
    sizes = settings.layers, settings.heads, settings.dim
    dropout = settings.dropout if settings.layers > 1 else 0.0
    own = directions(False), directions(asked.all_states), *sizes, dropout, values, settings.order
    call = Call(*own, settings.form, *asked[:-1])
    return call._replace(both=as_one_direction(call)) if asked.joint else call
