"""`rnnc.nn.LSTM`, `rnnc.nn.GRU` and `rnnc.nn.RNN`, and their cells."""

from __future__ import annotations

from torch import nn

from .base import TwoStates, of_torch
from .sequences import Cells, Sequences


@of_torch(nn.LSTM)
class LSTM(TwoStates, Sequences, nn.LSTM):
    """`torch.nn.LSTM` on the kernels of rnnc.

    The arguments, the parameters, the state dict, inputs and results are those of
    `torch.nn.LSTM`, and so are the numbers, within rounding. Dropout between layers has the same
    distribution and draws other numbers. Where no kernel serves a call, torch's own forward runs
    on the same parameters: other devices, half precision on the CPU, `torch.func`, forward-mode
    derivatives, `torch.jit`, and wherever there is no compiler. With `proj_size` it also runs where
    it is faster, as `docs/nn.md` says.

    A call may also have `lengths`, `reset` and `reset_to`, as one of `rnnc.RNN`; without kernels
    they are a `TensorError`.

    Args:
        input_size: features of the input.
        hidden_size: units of each direction of a layer.
        num_layers: layers, each fed by the one below.
        bias: whether gates have biases.
        batch_first: whether input and output are (B, T, features) instead of (T, B, features).
        dropout: the probability of dropping a feature between layers, in training.
        bidirectional: whether each layer runs in both directions of time.
        proj_size: the width of h if it is projected; 0 for none.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: an argument has a wrong value, as in torch.
        TypeError: an argument has a wrong type, as in torch.
        RuntimeError: a tensor of a call does not fit, as in torch.
        TensorError: lengths or resets of a call do not fit, or no kernels serve a call with them.

    Example:
        >>> import torch, rnnc
        >>> lstm = rnnc.nn.LSTM(10, 20, num_layers=2, batch_first=True)
        >>> y, (h, c) = lstm(torch.randn(3, 5, 10))
        >>> y.shape, h.shape
        (torch.Size([3, 5, 20]), torch.Size([2, 3, 20]))
        >>> theirs = torch.nn.LSTM(10, 20, num_layers=2, batch_first=True)
        >>> theirs.load_state_dict(lstm.state_dict())
        <All keys matched successfully>
        >>> isinstance(lstm, torch.nn.LSTM)
        True
    """


@of_torch(nn.GRU)
class GRU(Sequences, nn.GRU):
    """`torch.nn.GRU` on the kernels of rnnc.

    What `rnnc.nn.LSTM` says of torch's module holds here too. The cell is that of torch: the reset
    gate multiplies the recurrent product of the candidate with its bias.

    Args:
        input_size: features of the input.
        hidden_size: units of each direction of a layer.
        num_layers: layers, each fed by the one below.
        bias: whether gates have biases.
        batch_first: whether input and output are (B, T, features) instead of (T, B, features).
        dropout: the probability of dropping a feature between layers, in training.
        bidirectional: whether each layer runs in both directions of time.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: an argument has a wrong value, as in torch.
        TypeError: an argument has a wrong type, as in torch.
        RuntimeError: a tensor of a call does not fit, as in torch.

    Example:
        >>> import torch, rnnc
        >>> gru = rnnc.nn.GRU(10, 20, bidirectional=True)
        >>> y, h = gru(torch.randn(5, 3, 10))
        >>> y.shape, h.shape
        (torch.Size([5, 3, 40]), torch.Size([2, 3, 20]))
    """


@of_torch(nn.RNN)
class RNN(Sequences, nn.RNN):
    """`torch.nn.RNN` on the kernels of rnnc; `rnnc.RNN` is the module for any cell.

    What `rnnc.nn.LSTM` says of torch's module holds here too.

    Args:
        input_size: features of the input.
        hidden_size: units of each direction of a layer.
        num_layers: layers, each fed by the one below.
        nonlinearity: "tanh" or "relu".
        bias: whether gates have biases.
        batch_first: whether input and output are (B, T, features) instead of (T, B, features).
        dropout: the probability of dropping a feature between layers, in training.
        bidirectional: whether each layer runs in both directions of time.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: an argument has a wrong value, as in torch.
        TypeError: an argument has a wrong type, as in torch.
        RuntimeError: a tensor of a call does not fit, as in torch.

    Example:
        >>> import torch, rnnc
        >>> rnn = rnnc.nn.RNN(10, 20, nonlinearity="relu")
        >>> y, h = rnn(torch.randn(5, 3, 10), torch.zeros(1, 3, 20))
        >>> y.shape, h.shape
        (torch.Size([5, 3, 20]), torch.Size([1, 3, 20]))
    """


@of_torch(nn.LSTMCell)
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


@of_torch(nn.GRUCell)
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


@of_torch(nn.RNNCell)
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
