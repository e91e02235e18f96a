"""Base of all modules of `rnnc.nn`, and the cells of torch's modules as this package has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

from torch import Tensor, nn

from ...cellspec.cell import CellSpec
from ...cellspec.library.elman import elman
from ...cellspec.library.gru import gru
from ...cellspec.library.irnn import irnn
from ...cellspec.library.lstm import lstm
from ..call.forms import TORCH, TORCH_GRU, Form, Named
from ..call.layer_call import Choice
from ..call.settings import Settings
from ..call.tensors import SomeTensors, States
from ..run.known_calls import KnownCalls
from .own import as_torch, is_strided, kernels_serve


class Kind(NamedTuple):
    """Equations of a module of torch, and the form and number of gates of its weights."""

    cell: CellSpec
    form: Form
    gates: int

    def settings(self, layers: int, both: bool, hidden: int, dropout: float) -> Settings:
        """Return the settings of a module; `hidden` are the units of a direction of a layer."""
        sizes = layers, both, 1, hidden
        return Settings(self.cell, *sizes, dropout, "auto", Choice(), form=self.form)


# By torch's word for a module.
KINDS = {
    "LSTM": Kind(lstm, TORCH, 4),
    "GRU": Kind(gru, TORCH_GRU, 3),
    "RNN_TANH": Kind(elman, TORCH, 1),
    "RNN_RELU": Kind(irnn, TORCH, 1),
}


Own = TypeVar("Own", bound="OnKernels")


def of_torch(theirs: type[nn.Module]) -> Callable[[type[Own]], type[Own]]:
    """Return a decorator of the class of `rnnc.nn` for a class of torch."""

    def named(own: type[Own]) -> type[Own]:
        own.__module__, own.torch_class = "rnnc.nn", theirs
        return own

    return named


# Attributes that a module makes again where they are missing.
MADE_ANEW = "_known_calls", "_in_order"


class OnKernels:
    """A module with torch's parameters. It keeps nothing of a call but the entries of `KnownCalls`.

    The class of a module has this before torch's. The forward of `torch_class` runs where no kernel
    serves.
    """

    torch_class: ClassVar[type[nn.Module]]

    bias: bool
    input_size: int
    hidden_size: int
    proj_size = 0
    training: bool
    _parameters: dict[str, Any]

    def _names(self) -> list[str | None]:
        """Return the names of all weights, four or five of each direction of each layer."""
        raise NotImplementedError

    def _weights(self) -> list[Tensor | None]:
        """Return all weights: parameters, or the tensors that replace them."""
        return [None if name is None else getattr(self, name, None) for name in self._names()]

    def _cell_kind(self) -> Kind | None:
        """Return the kind of the module; None if this package has no such cell."""
        raise NotImplementedError

    def _fits(
        self,
        settings: Settings,
        x: Tensor,
        batch: tuple[int, ...],
        states: Sequence[Any] | None,
        weights: SomeTensors,
    ) -> bool:
        """Return True if kernels can take the call. Torch says what is wrong with other calls."""
        kind, directions = self._cell_kind(), 2 if settings.both else 1
        assert kind is not None
        if x.shape[-1] != self.input_size or not self._weights_fit(weights, kind.gates, directions):
            return False
        if states is not None:
            first = self.proj_size or self.hidden_size
            sizes = [first, *[self.hidden_size] * (len(settings.cell.states) - 1)]
            shapes = [(settings.layers * directions, *batch, size) for size in sizes]
            pairs = zip(states, shapes, strict=False)
            fit = all(is_strided(state) and state.shape == shape for state, shape in pairs)
            if len(states) != len(shapes) or not fit:
                return False
        return kernels_serve([x, *(states or ()), *[w for w in weights if w is not None]])

    def _weights_fit(self, weights: SomeTensors, gates: int, directions: int) -> bool:
        """Return True if all weights are there, in the shapes that the module's sizes give."""
        rows, width = gates * self.hidden_size, self.proj_size or self.hidden_size
        each = 5 if self.proj_size else 4
        for first in range(0, len(weights), each):
            features = self.input_size if first < each * directions else directions * width
            shapes = (rows, features), (rows, width), (rows,), (rows,), (width, self.hidden_size)
            for weight, shape in zip(weights[first : first + each], shapes, strict=False):
                if weight is None:
                    if self.bias or len(shape) > 1:
                        return False
                elif not is_strided(weight) or weight.shape != shape:
                    return False
        return True

    @cached_property
    def _known_calls(self) -> KnownCalls:
        """Calls that passed all checks before."""
        return KnownCalls()

    @cached_property
    def _in_order(self) -> list[Named | None]:
        """Names of all weights, as `KnownCalls` reads them."""
        return [None if name is None else Named(name, name, ()) for name in self._names()]

    def _states_of(self, hx: Any) -> Sequence[Any] | None:
        """Return the states before the first step, from the `hx` of the caller."""
        return None if hx is None else (hx,)

    def _hx_of(self, states: States) -> Any:
        """Return the states after the last step, as torch's module gives them."""
        return states[0]

    def __getstate__(self) -> dict[str, Any]:
        whole: Any = super().__getstate__()
        return {name: value for name, value in whole.items() if name not in MADE_ANEW}

    def __prepare_scriptable__(self) -> Any:
        """Return torch's own module with the same parameters, for `torch.jit.script`."""
        return as_torch(self)


class TwoStates(OnKernels):
    """A module with the two states of an LSTM."""

    def _states_of(self, hx: Any) -> Sequence[Any] | None:
        # Anything but a pair becomes a sequence of another length.
        return hx if hx is None or (isinstance(hx, tuple | list) and len(hx) == 2) else (hx,)

    def _hx_of(self, states: States) -> Any:
        return states
