"""Settings of a module, the call of all layers that follows from them, and such calls as text.

Text is for the operators of torch: graphs and exported files hold it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any, NamedTuple

import torch

from ...cellspec.cell import CellSpec
from ...codegen.shape import Precision
from ..store.memo import runtime_digest
from .call import Call, as_one_direction
from .forms import OWN, TORCH, TORCH_GRU, Form, RowsForm
from .layer_call import Choice, LayerCall, Order, cell_of, layer_call_of
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


_FORMS = {form.name: form for form in (OWN, TORCH, TORCH_GRU)}


def constants_of(settings: Settings) -> tuple[Any, ...]:
    """Return settings but the backend as plain values, which `torch.compile` hands on."""
    cell, layers, both, heads, dim, dropout, _, choice, order, form = settings
    # A graph of any sizes has symbols here, which these methods make numbers.
    sizes = index(layers), both, index(heads), index(dim), float(dropout).hex()
    return cell.text, *sizes, choice.of_scan, order, form.name


def settings_of_constants(constants: Sequence[Any]) -> Settings:
    """Return the settings that `constants_of` got."""
    cell, layers, both, heads, dim, dropout, choice, order, form = constants
    own = RowsForm(heads, dim) if form == "rows" else _FORMS[form]
    sizes = layers, both, heads, dim, float.fromhex(dropout)
    return Settings(cell_of(cell), *sizes, "auto", Choice(*choice), order, own)


class CallText(NamedTuple):
    """Call of all layers besides its tensors and its target, as text says it.

    Settings have the dropout of the call, 0 outside of training. `keep` says that a backward may
    follow, and `present` which of the flat weights there are; the operators take no others.
    """

    settings: Settings
    keep: bool
    asked: Asked
    present: tuple[bool, ...]

    def call(self, target: str, tf32: bool) -> Call:
        """Return the call on a target; `tf32` is as in `call_of`."""
        return call_of(self.settings, target, self.keep, tf32, self.asked)

    def spread(self, tensors: Sequence[Any], missing: Any) -> list[Any]:
        """Return a value for each of `Tensors.flat`: those of an operator, `missing` for others."""
        last = len(tensors) - self.asked.drawn
        first = last - sum(self.present)
        found = iter(tensors[first:last])
        weights = [next(found) if there else missing for there in self.present]
        return [*tensors[:first], *weights, *tensors[last:]]

    def with_precision(self, tf32: bool) -> CallText:
        """Return the same call where it is decided if products round to TF32."""
        precision: Precision = "tf32" if tf32 else "ieee"
        choice = self.settings.choice._replace(precision=precision)
        return self._replace(settings=self.settings._replace(choice=choice))


@lru_cache(maxsize=512)
def write_call(written: CallText) -> str:
    """Return a call as JSON; `read_call` is the inverse."""
    settings = written.settings
    found = {
        "cell": json.loads(settings.cell.text),
        **{name: getattr(settings, name) for name in ("layers", "both", "heads", "dim", "order")},
        "dropout": settings.dropout,
        "form": settings.form.name,
        "choice": dict(zip(Choice._fields, settings.choice.of_scan, strict=False)),
        "keep": written.keep,
        "present": written.present,
        **written.asked._asdict(),
    }
    return json.dumps(found, separators=(",", ":"))


@constant_in_graphs
def text_in_graph(text: str) -> str:
    """Return a call's text in a graph of `torch.compile`, with what tells versions apart.

    Inductor keeps compiled graphs on disk, with the sizes of what an operator saves, and finds them
    by the graph's constants. It is one line: torch 2.11 writes it into a comment.
    """
    return text if torch.compiler.is_exporting() else f"{text}\t{runtime_digest()}"


@lru_cache(maxsize=1024)
def read_call(text: str) -> CallText:
    """Return the call of an operator's text argument, whose JSON ends before the first tab."""
    found: dict[str, Any] = json.loads(text.partition("\t")[0])
    cell, choice = json.dumps(found["cell"], sort_keys=True), Choice(**found["choice"])
    sizes = [found[name] for name in ("layers", "both", "heads", "dim")]
    more = float(found["dropout"]).hex(), choice.of_scan, found["order"], found["form"]
    settings = settings_of_constants((cell, *sizes, *more))
    given = {name: found[name] for name in Asked._fields if name in found}
    if given.get("ragged") is not None:
        given["ragged"] = RaggedKind(*given["ragged"])
    return CallText(settings, found["keep"], Asked(**given), tuple(found["present"]))


def text_of_call(call: Call, present: tuple[bool, ...]) -> str:
    """Return the text of a call that rounds factors to TF32, or not, whatever torch's flags say."""
    layer_call, both = call.directions[0], len(call.directions) == 2
    own = layer_call.cell, call.layers, both, call.heads, call.dim, call.dropout
    settings = Settings(*own, "auto", layer_call.choice, call.order, call.form)
    same = {name: getattr(call, name) for name in Asked._fields[:-1]}
    asked = Asked(**same, joint=call.both is not None)
    found = CallText(settings, layer_call.for_backward, asked, present)
    return write_call(found.with_precision(call.tf32))
