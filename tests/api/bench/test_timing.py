"""How `rnnc bench` times calls on a GPU; a stand-in for the GPU's clock."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
import torch
from rnnc.bench.timing import timed


@pytest.mark.parametrize(("late", "slept"), [(0, [1]), (2, [1, 2, 4])])
def test_a_run_that_the_gpu_did_not_wait_for_is_timed_again(monkeypatch, late, slept):
    """With more work ahead of it: the time would include the host's."""
    sleeps, runs = [], []

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            pass

        def synchronize(self):
            pass

        def query(self):
            return len(runs) <= late

        def elapsed_time(self, end):
            return 7.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", sleeps.append)
    assert timed(lambda: runs.append(None), "cuda", ahead=1.0)[0] == 7.0
    assert [cycles / sleeps[0] for cycles in sleeps] == slept


def test_a_run_from_an_idle_gpu_is_timed_once(monkeypatch):
    runs = []
    monkeypatch.setattr(torch.cuda, "Event", MagicMock())
    timed(lambda: runs.append(None), "cuda")
    assert len(runs) == 1
