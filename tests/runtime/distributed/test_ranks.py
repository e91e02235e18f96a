"""Two processes on the CPU, connected by gloo, run all checks of `tests/ranks` together."""

from __future__ import annotations


def test_all_checks_of_two_ranks(on_ranks):
    """One pair of processes for all of them: a start takes longer than most checks."""
    first, _ = on_ranks("cpu")
    assert first.count("ok check_") > 25, first
    assert "ok check_lost_ranks" in first
