"""Two processes on the CPU, connected by gloo, run all checks of `tests/ranks` together."""

from __future__ import annotations

import pytest


def test_all_checks_of_two_ranks(on_ranks):
    """One pair of processes for all of them: a start takes longer than most checks."""
    first, _ = on_ranks("cpu")
    assert first.count("ok check_") > 25, first
    assert "ok check_lost_ranks" in first


@pytest.mark.slow
def test_all_modules_of_two_ranks_are_compiled(on_ranks, monkeypatch):
    """Also FSDP2 and DDP, which the test above leaves out."""
    monkeypatch.setenv("RNNC_SLOW", "1")
    first, _ = on_ranks("cpu", "check_sharded_and_compiled")
    assert "ok check_sharded_and_compiled" in first


@pytest.mark.slow
def test_a_failed_check_is_an_error_where_the_others_go_on(on_ranks):
    """Without a second rank no rank can be lost: that check fails, and the one behind it runs."""
    with pytest.raises(AssertionError, match=r"(?s)FAILED check_lost_ranks"):
        on_ranks("cpu", "--go-on", "check_lost_ranks", ranks=1)
