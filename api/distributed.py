"""`rnnc.distributed`: recurrent layers in several processes of `torch.distributed`.

docs/distributed.md says which to take when.
"""

from .runtime.distributed.gradients import reduce_gradients
from .runtime.distributed.headwise import HeadwiseParallel
from .runtime.distributed.policy import SAVED_OPERATORS, save_policy
from .runtime.distributed.sequence import SequenceParallel

__all__ = [
    "SAVED_OPERATORS",
    "HeadwiseParallel",
    "SequenceParallel",
    "reduce_gradients",
    "save_policy",
]
