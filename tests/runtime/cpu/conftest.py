"""CPU kernels by the flags that ship, whatever the rest of the tests compile by."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rnnc.runtime.cpu.compile import cpu_library
from rnnc.runtime.cpu.step import facts_of_step


@pytest.fixture(scope="module", autouse=True)
def _flags_that_ship() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RNNC_QUICK_COMPILE", raising=False)
        _forget()
        yield
    _forget()


@pytest.fixture
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels by the flags that ship, or the quick ones: the parameter says which."""
    if request.param == "quick":
        monkeypatch.setenv("RNNC_QUICK_COMPILE", "1")
        _forget()
    yield
    if request.param == "quick":
        _forget()


def _forget() -> None:
    """Libraries that this process has loaded."""
    cpu_library.cache_clear()
    facts_of_step.cache_clear()
