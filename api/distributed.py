"""`rnnc.distributed`: recurrent layers in several processes of `torch.distributed`.

docs/distributed.md says which to take when. Each name is imported when it is first used: its module
imports `torch.distributed.tensor`, which `from rnnc import *` should not wait for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runtime.distributed.exchange import reduce_gradients
    from .runtime.distributed.headwise import HeadwiseParallel
    from .runtime.distributed.sequence import SequenceParallel
    from .runtime.grad.operators.policy import SAVED_OPERATORS, save_policy

__all__ = [
    "SAVED_OPERATORS",
    "HeadwiseParallel",
    "SequenceParallel",
    "reduce_gradients",
    "save_policy",
]

_MODULE_OF = {
    "SAVED_OPERATORS": "grad.operators.policy",
    "HeadwiseParallel": "distributed.headwise",
    "SequenceParallel": "distributed.sequence",
    "reduce_gradients": "distributed.exchange",
    "save_policy": "grad.operators.policy",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".runtime.{_MODULE_OF[name]}", __package__)
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
