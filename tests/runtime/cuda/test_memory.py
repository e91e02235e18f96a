"""Memory kept between calls: limited in bytes, least recently used freed first."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import rnnc
from rnnc.runtime.cuda import memory
from rnnc.runtime.cuda.memory import Kept, freed_with_memory, kept_limit

MIB = 2**20


class Entry:
    def __init__(self, mib):
        self.nbytes = mib * MIB


@pytest.fixture(autouse=True)
def own_store(monkeypatch):
    """Stores of a test are forgotten after it."""
    monkeypatch.setattr(memory, "_EMPTIED", list(memory._EMPTIED))
    monkeypatch.setenv("RNNC_KEPT_SIZE", "100")


def test_an_entry_is_made_once():
    store, made = Kept(), []
    for _ in range(2):
        store.get("a", lambda: made.append(Entry(1)) or made[-1])
    assert len(made) == 1
    assert store.nbytes == MIB


def test_those_used_longest_ago_go_where_bytes_exceed_the_limit():
    store = Kept()
    entries = {key: weakref.ref(store.get(key, lambda: Entry(40))) for key in "ab"}
    store.get("a", lambda: pytest.fail("it is kept"))
    entries["c"] = weakref.ref(store.get("c", lambda: Entry(40)))
    gc.collect()
    assert {key for key, entry in entries.items() if entry()} == {"a", "c"}
    assert store.nbytes == 80 * MIB
    # Many small ones fit.
    for key in range(10):
        store.get(key, lambda: Entry(2))
    assert store.nbytes == 100 * MIB


def test_the_two_used_last_stay_however_large_they_are():
    store = Kept()
    for key in "abc":
        store.get(key, lambda: Entry(1000))
    for key in "bc":
        store.get(key, lambda: pytest.fail("it is kept"))
    assert store.nbytes == 2000 * MIB


def test_an_entry_in_use_outlives_its_place():
    store = Kept()
    used = store.get("a", lambda: Entry(60))
    found = weakref.ref(used)
    rnnc.free_memory()
    assert found() is used
    assert store.nbytes == 0
    del used
    assert found() is None


@pytest.mark.parametrize(("text", "mib"), [("7", 7), ("0", 0), ("", 1024), ("many", 1024)])
def test_the_limit_is_a_setting(text, mib, monkeypatch):
    monkeypatch.setenv("RNNC_KEPT_SIZE", text)
    assert kept_limit() == mib * MIB


def test_threads_that_meet_a_new_key_at_once_get_one_entry():
    store, together, got = Kept(), threading.Barrier(4), []

    def meet():
        def make():
            together.wait(10)
            return Entry(1)

        got.append(store.get("a", make))

    threads = [threading.Thread(target=meet) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 4
    assert len(set(map(id, got))) == 1
    assert store.nbytes == MIB


def test_an_error_or_interrupt_leaves_nothing_behind():
    store = Kept()

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.get("a", interrupted)
    assert store.nbytes == 0
    assert store.get("a", lambda: Entry(1)).nbytes == MIB


def test_free_memory_empties_every_store():
    stores, called = [Kept(), Kept()], []
    freed_with_memory(lambda: called.append(True))
    for store in stores:
        store.get("a", lambda: Entry(1))
    assert rnnc.free_memory() is None
    assert [store.nbytes for store in stores] == [0, 0]
    assert called == [True]
