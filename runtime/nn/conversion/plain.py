"""The modules of `rnnc.nn` as no subclasses of torch's, which Dynamo would refuse."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from ..base import MADE_ANEW, TwoStates, of_torch
from ..modules import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from ..sequences import Cells, Sequences

_KEPT_BY_TORCH = ("_flat_weights", "_flat_weight_refs")


class _Plain(nn.Module):
    """A module with the attributes of torch's, which is no subclass of it."""

    torch_class: ClassVar[type[nn.Module]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        made = self.torch_class(*args, **kwargs).__dict__
        self.__dict__.update({k: v for k, v in made.items() if k not in _KEPT_BY_TORCH})

    def _get_name(self) -> str:
        return self.torch_class.__name__

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__


class _PlainSequences(Sequences, _Plain):
    """Attributes that torch's own forward reads of a module over time."""

    all_weights = nn.RNNBase.all_weights
    check_forward_args: Any = nn.RNNBase.check_forward_args
    check_hidden_size = nn.RNNBase.check_hidden_size
    check_input = nn.RNNBase.check_input
    extra_repr = nn.RNNBase.extra_repr
    get_expected_hidden_size = nn.RNNBase.get_expected_hidden_size
    permute_hidden: Any = nn.RNNBase.permute_hidden
    reset_parameters = nn.RNNBase.reset_parameters

    @property
    def _flat_weights(self) -> list[Tensor | None]:
        return [getattr(self, name, None) for names in self._all_weights for name in names]

    def _update_flat_weights(self) -> None:
        """Do nothing: no weights are kept."""


class _PlainCells(Cells, _Plain):
    """Attributes that torch's own forward reads of a cell."""

    extra_repr = nn.RNNCellBase.extra_repr
    reset_parameters = nn.RNNCellBase.reset_parameters


@of_torch(nn.LSTM)
class PlainLSTM(TwoStates, _PlainSequences):
    """`rnnc.nn.LSTM`, which is no subclass of `torch.nn.LSTM`; `rnnc.convert` makes it.

    It has the same arguments, state dict and results, and `torch.compile` traces it whole.

    Example:
        >>> import torch, rnnc
        >>> lstm = torch.nn.LSTM(3, 4)
        >>> report = rnnc.convert(lstm, isinstance=False, force=True)
        >>> type(lstm), isinstance(lstm, torch.nn.LSTM)
        (<class 'rnnc.nn.PlainLSTM'>, False)
    """

    check_forward_args = nn.LSTM.check_forward_args
    get_expected_cell_size = nn.LSTM.get_expected_cell_size
    permute_hidden = nn.LSTM.permute_hidden


@of_torch(nn.GRU)
class PlainGRU(_PlainSequences):
    """`rnnc.nn.GRU`, which is no subclass of `torch.nn.GRU`; `rnnc.convert` makes it."""


@of_torch(nn.RNN)
class PlainRNN(_PlainSequences):
    """`rnnc.nn.RNN`, which is no subclass of `torch.nn.RNN`; `rnnc.convert` makes it."""


@of_torch(nn.LSTMCell)
class PlainLSTMCell(TwoStates, _PlainCells):
    """`rnnc.nn.LSTMCell`, which is no subclass of `torch.nn.LSTMCell`; `rnnc.convert` makes it."""


@of_torch(nn.GRUCell)
class PlainGRUCell(_PlainCells):
    """`rnnc.nn.GRUCell`, which is no subclass of `torch.nn.GRUCell`; `rnnc.convert` makes it."""


@of_torch(nn.RNNCell)
class PlainRNNCell(_PlainCells):
    """`rnnc.nn.RNNCell`, which is no subclass of `torch.nn.RNNCell`; `rnnc.convert` makes it."""


# Of each class of torch: the subclass of it, and the plain one.
CLASSES: dict[type[nn.Module], tuple[type[nn.Module], type[nn.Module]]] = {
    nn.LSTM: (LSTM, PlainLSTM),
    nn.GRU: (GRU, PlainGRU),
    nn.RNN: (RNN, PlainRNN),
    nn.LSTMCell: (LSTMCell, PlainLSTMCell),
    nn.GRUCell: (GRUCell, PlainGRUCell),
    nn.RNNCell: (RNNCell, PlainRNNCell),
}


def change_class(module: nn.Module, to: type[nn.Module]) -> None:
    """Change a module's class to one for the same class of torch; its attributes and hooks stay."""
    theirs = issubclass(to, nn.RNNBase)
    for name in (*MADE_ANEW, *(() if theirs else _KEPT_BY_TORCH)):
        module.__dict__.pop(name, None)
    module.__class__ = to
    if not isinstance(module, nn.RNNBase):
        return
    if "_flat_weights" in module.__dict__:
        module.flatten_parameters()
    else:
        module.__dict__["_flat_weights"], module.__dict__["_flat_weight_refs"] = [], []
        module._init_flat_weights()
