"""Two processes with a GPU each, connected by NCCL."""

from __future__ import annotations

import pytest
import torch

needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@needs_two
def test_all_checks_of_two_ranks(on_ranks):
    """Those of `tests/ranks`, one pair of processes for all."""
    first, _ = on_ranks("cuda", seconds=400)
    assert first.count("ok check_") > 25, first
    print(first)


@needs_two
def test_a_late_rank_ends_with_the_error_of_torch(on_ranks):
    """NCCL's time-out ends the process that waits, and no watchdog of a kernel comes before it."""
    with pytest.raises(AssertionError) as found:
        on_ranks("cuda", "late", seconds=120)
    text = str(found.value)
    assert "ran for" in text or "timeout" in text or "timed out" in text
    assert "rnnc has waited" not in text
    assert "__assertfail" not in text
