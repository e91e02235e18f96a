"""`rnnc.nn`: torch's recurrent modules on the kernels of rnnc.

Each class is a subclass of torch's class of that name, with its arguments, parameters and results.
`rnnc.convert` changes the modules of a model into these.
"""

from .runtime.nn.modules import GRU, LSTM, RNN

__all__ = ["GRU", "LSTM", "RNN"]
