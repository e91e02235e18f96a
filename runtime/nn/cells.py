"""`rnnc.nn.LSTMCell`, `rnnc.nn.GRUCell` and `rnnc.nn.RNNCell`."""

from __future__ import annotations

from torch import nn

from .base import TwoStates
from .kinds import Kind, kind_of
from .steps import Cells


class LSTMCell(TwoStates, Cells, nn.LSTMCell):
    """`torch.nn.LSTMCell` on the kernels of rnnc.

    The arguments, the parameters, the state dict, inputs and results are those of
    `torch.nn.LSTMCell`. Torch's own forward runs where no kernel serves, as in `rnnc.nn.LSTM`.

    Args:
        input_size: features of the input.
        hidden_size: units.
        bias: whether gates have biases.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: a tensor of a call has another number of axes, as in torch.
        RuntimeError: a tensor of a call does not fit, as in torch.

    Example:
        >>> import torch, rnnc
        >>> cell = rnnc.nn.LSTMCell(10, 20)
        >>> h, c = cell(torch.randn(3, 10))
        >>> h, c = cell(torch.randn(3, 10), (h, c))
        >>> h.shape
        torch.Size([3, 20])
    """

    __module__ = "rnnc.nn"
    torch_class = nn.LSTMCell
    _mode = "LSTM"


class GRUCell(Cells, nn.GRUCell):
    """`torch.nn.GRUCell` on the kernels of rnnc.

    What `rnnc.nn.LSTMCell` says of torch's cell holds here too.

    Args:
        input_size: features of the input.
        hidden_size: units.
        bias: whether gates have biases.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: a tensor of a call has another number of axes, as in torch.
        RuntimeError: a tensor of a call does not fit, as in torch.

    Example:
        >>> import torch, rnnc
        >>> cell = rnnc.nn.GRUCell(10, 20)
        >>> cell(torch.randn(3, 10), torch.zeros(3, 20)).shape
        torch.Size([3, 20])
    """

    __module__ = "rnnc.nn"
    torch_class = nn.GRUCell
    _mode = "GRU"


class RNNCell(Cells, nn.RNNCell):
    """`torch.nn.RNNCell` on the kernels of rnnc.

    What `rnnc.nn.LSTMCell` says of torch's cell holds here too.

    Args:
        input_size: features of the input.
        hidden_size: units.
        bias: whether gates have biases.
        nonlinearity: "tanh" or "relu".
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: a tensor of a call has another number of axes, as in torch.
        RuntimeError: a tensor of a call does not fit, or `nonlinearity` is another word.

    Example:
        >>> import torch, rnnc
        >>> cell = rnnc.nn.RNNCell(10, 20, nonlinearity="relu")
        >>> cell(torch.randn(10)).shape
        torch.Size([20])
    """

    __module__ = "rnnc.nn"
    torch_class = nn.RNNCell

    def _cell_kind(self) -> Kind | None:
        return kind_of(f"RNN_{self.nonlinearity.upper()}")
