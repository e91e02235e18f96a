"""`rnnc.nn`: torch's recurrent modules on the kernels of rnnc.

Each class is a subclass of torch's class of that name, with its arguments, parameters and results.
`rnnc.convert` changes the modules of a model into these. Those that begin with `Plain` are no
subclasses of torch's.
"""

from .runtime.nn.conversion.plain import (
    PlainGRU,
    PlainGRUCell,
    PlainLSTM,
    PlainLSTMCell,
    PlainRNN,
    PlainRNNCell,
)
from .runtime.nn.modules import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "PlainGRU",
    "PlainGRUCell",
    "PlainLSTM",
    "PlainLSTMCell",
    "PlainRNN",
    "PlainRNNCell",
    "RNNCell",
]
