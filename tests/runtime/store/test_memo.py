"""Results kept on disk: computed once, and again if a file is damaged or outdated."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plan_for, plans_for
from rnnc.codegen.derive import derive
from rnnc.codegen.render import states_read_before
from rnnc.codegen.shape import PlanError, Shape
from rnnc.runtime.call import facts
from rnnc.runtime.call.facts import facts_of
from rnnc.runtime.store import memo, tuned
from rnnc.runtime.store.sealed import write_sealed
from rnnc.runtime.store.tuned import Asked, packed_plan, planned, unpacked_plan

H200 = limits_of("H200")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path / "cache"))
    facts_of.cache_clear()
    yield tmp_path / "cache"
    facts_of.cache_clear()


def memos(folder):
    return sorted(folder.glob("*.memo"))


def remembered(name, made_from, make):
    return memo.remembered(name, made_from, make, lambda value: value)


def never():
    raise AssertionError("made again")


def test_made_once(folder):
    assert remembered("a", "from this", lambda: [1, "two"]) == [1, "two"]
    assert remembered("a", "from this", never) == [1, "two"]
    assert remembered("a", "from that", lambda: 3) == 3
    assert len(memos(folder)) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"7"])
def test_what_is_torn_or_foreign_is_made_anew(folder, content):
    remembered("a", "this", lambda: 7)
    (path,) = memos(folder)
    path.write_bytes(content)
    assert remembered("a", "this", lambda: 8) == 8
    assert remembered("a", "this", never) == 8


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", 100_000 * b"["])
def test_a_sealed_memo_that_does_not_parse_is_made_anew(folder, content):
    remembered("a", "this", lambda: 7)
    (path,) = memos(folder)
    write_sealed(path, content)
    assert remembered("a", "this", lambda: 8) == 8
    assert remembered("a", "this", never) == 8


@pytest.mark.parametrize("value", [3, None, {}, [1, 2], [[1], [], [True]], [["g"], [], []], "abc"])
def test_a_sealed_memo_without_facts_is_made_anew(folder, value, monkeypatch):
    wanted = facts_of(rnnc.cells.elman)
    (path,) = memos(folder)
    write_sealed(path, json.dumps(value).encode())
    for derives in (True, False):
        facts_of.cache_clear()
        assert facts_of(rnnc.cells.elman) == wanted
        if derives:
            monkeypatch.setattr(facts, "derive", lambda *_, **__: never())


def test_a_memo_of_something_else_is_made_anew(folder):
    remembered("a", "this", lambda: 7)
    (this,) = memos(folder)
    remembered("a", "that", lambda: 8)
    (that,) = set(memos(folder)) - {this}
    this.rename(that)
    assert remembered("a", "that", lambda: 9) == 9


def test_another_version_of_the_package_is_another_memo(folder, monkeypatch):
    remembered("a", "this", lambda: 1)
    monkeypatch.setattr(memo, "package_digest", lambda: "changed")
    assert remembered("a", "this", lambda: 2) == 2
    assert len(memos(folder)) == 2


def test_an_error_is_the_caller_s_and_leaves_nothing(folder):
    with pytest.raises(ZeroDivisionError):
        remembered("a", "this", lambda: 1 // 0)
    assert not memos(folder)


@pytest.mark.parametrize("name", rnnc.cells.names())
def test_facts_are_those_of_the_derived_cell(name):
    cell = rnnc.cells.get(name)
    first = facts_of(cell)
    derived = derive(cell)
    assert first.saved == derived.saved
    assert first.saved_gates == derive(cell, activations=False).saved
    assert first.reads == states_read_before(derived)
    facts_of.cache_clear()
    assert facts_of(cell) == first


@pytest.mark.parametrize("name", ["lstm", "gru_reset_first", "layer_norm_lstm"])
@pytest.mark.parametrize("heads_and_dim", [(12, 64), (3, 256), (1, 768), (1, 3000)])
def test_every_plan_is_the_same_from_its_text(heads_and_dim, name):
    for plan in plans_for(rnnc.cells.get(name), Shape(*heads_and_dim), H200):
        text = json.dumps(packed_plan(plan))
        found = unpacked_plan(json.loads(text), "sm_90")
        assert found == plan
        assert found.forward.estimate == plan.forward.estimate
        with pytest.raises(ValueError, match="no plan for sm_80"):
            unpacked_plan(json.loads(text), "sm_80")


def test_a_plan_is_searched_for_once(folder, monkeypatch):
    asked = Asked(rnnc.cells.gru, Shape(12, 64), H200)
    for variant in ("auto", "block", "alternating"):
        wanted = plan_for(asked.cell, asked.shape, asked.limits, variant)
        assert planned(asked, variant) == wanted
        with monkeypatch.context() as patch:
            patch.setattr(tuned, "plan_for", lambda *_, **__: never())
            assert planned(asked, variant) == wanted
    assert len(memos(folder)) == 3
    others = [
        Asked(asked.cell, Shape(12, 64, batch=128), H200),
        Asked(asked.cell, asked.shape, limits_of("A100")),
        Asked(asked.cell, asked.shape, H200, save="states"),
        Asked(rnnc.cells.lstm, asked.shape, H200),
    ]
    for other in others:
        options = {"save": other.save}
        assert planned(other) == plan_for(other.cell, other.shape, other.limits, **options)
    assert len(memos(folder)) == 3 + len(others)


def test_a_memo_that_is_no_plan_is_searched_for_again(folder, monkeypatch):
    asked = Asked(rnnc.cells.gru, Shape(12, 64), H200)
    wanted = planned(asked)
    (path,) = memos(folder)
    older = packed_plan(wanted)
    for direction in ("forward", "backward"):
        del older[direction]["estimate"]
        older[direction]["nanoseconds"] = 300  # as earlier versions wrote it
    for value in ({"type": "Nonsense"}, {"type": "BlockPlan"}, 3, None, older):
        write_sealed(path, json.dumps(value).encode())
        assert planned(asked) == wanted
        with monkeypatch.context() as patch:
            patch.setattr(tuned, "plan_for", lambda *_, **__: never())
            assert planned(asked) == wanted


def test_what_does_not_exist_is_said_each_time(folder):
    asked = Asked(rnnc.cells.lstm, Shape(1, 4096), H200)
    for _ in range(2):
        with pytest.raises(PlanError):
            planned(asked, "block")
    assert not memos(folder)


WARM = """
import os
import rnnc, torch
from rnnc.codegen import derive
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.shape import Shape
from rnnc.runtime.call.facts import facts_of
from rnnc.runtime.store.tuned import Asked, planned
if os.fork():
    # The child starts cold and fills the cache; then this process starts warm.
    assert os.wait()[1] == 0
    derive._derive = None  # whoever derives fails
asked = Asked(rnnc.cells.lstm, Shape(12, 64), limits_of("H200"))
print(facts_of(asked.cell), planned(asked), planned(asked, "alternating"))
x = torch.randn(2, 3, 1, 4, 4, requires_grad=True)
(h, c), _ = rnnc.scan(rnnc.cells.lstm, x, torch.randn(4, 1, 4, 4))
h.sum().backward()
print("end", flush=True)
"""


def test_a_warm_start_derives_nothing():
    """One process forks, since importing torch takes seconds."""
    done = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, check=True)
    cold, warm = done.stdout.split("end\n")[:2]
    assert cold == warm != ""
