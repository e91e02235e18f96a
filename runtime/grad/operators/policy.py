"""Policy of selective activation checkpointing that keeps the results of rnnc's operators."""

from __future__ import annotations

from typing import Any

from torch.utils.checkpoint import CheckpointPolicy, SelectiveCheckpointContext

from .call import call_op

SAVED_OPERATORS = (call_op,)


def save_policy(
    context: SelectiveCheckpointContext, operator: Any, *arguments: Any, **options: Any
) -> CheckpointPolicy:
    """A policy of selective activation checkpointing that runs no recurrence twice.

    It keeps what `torch.ops.rnnc.call.default` gives, and lets everything else be computed again.
    A policy of one's own names the operators of `rnnc.distributed.SAVED_OPERATORS` beside others.

    Args:
        context: of torch.
        operator: that is about to run.
        arguments: of the operator.
        options: of the operator.

    Returns:
        `MUST_SAVE` for rnnc's operators, else `PREFER_RECOMPUTE`.

    Example:
        >>> import torch, rnnc
        >>> from functools import partial
        >>> from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> rnn, x = rnnc.RNN(rnnc.cells.gru, 4, 8), torch.randn(5, 2, 4)
        >>> kept = partial(create_selective_checkpoint_contexts, rnnc.distributed.save_policy)
        >>> y, _ = checkpoint(rnn, x, use_reentrant=False, context_fn=kept)
        >>> y.sum().backward()
    """
    saved = operator in SAVED_OPERATORS
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE
