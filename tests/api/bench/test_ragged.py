"""`rnnc bench --ragged`: its contenders compute the same, and its table says who failed."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise

import pytest
import torch
from rich.console import Console
from rnnc.bench.modules import ragged as room
from rnnc.bench.modules.cases import Case, ragged_cases
from rnnc.bench.modules.measure import measure_modules
from rnnc.bench.modules.ragged import ragged_inputs
from rnnc.bench.modules.tables import ragged_table
from rnnc.bench.rows import BenchError
from rnnc.bench.turns import in_turns
from torch.nn.utils.rnn import pack_padded_sequence

ENDS = Case("lstm", 6, 5, 9, layers=2, both=True, shortest=2)
RESETS = Case("lstm", 6, 5, 9, resets=0.2)


@pytest.mark.parametrize("case", [ENDS, RESETS], ids=str)
def test_contenders_compute_the_same(case, monkeypatch):
    """With equal weights, rows that end or start anew have the outputs of torch's way."""
    given, weights = ragged_inputs(case, "cpu"), []
    training = room.training

    def equal(module, x, seed, call):
        with torch.no_grad():
            for place, parameter in enumerate(module.parameters()):
                if len(weights) <= place:
                    weights.append(parameter.clone())
                parameter.zero_() if place % 4 == 3 else parameter.copy_(weights[place])
        return training(module, x, seed, call)

    # torch has two biases: the second is zero, and ours come after the weights as its first does.
    monkeypatch.setattr(room, "training", equal)
    torchs = dict(room.ragged_contenders(case, given))
    wanted = {n: torchs[n]()() for n in torchs if "packed" in n or "split" in n}
    assert len(wanted) == (2 if case.shortest else 1)
    ours = room.rnnc_module(case, "cpu")
    by_torch = [weights[i : i + 3] for i in range(0, len(weights), 4)]
    with torch.no_grad():
        for own, layer in zip(by_layer(ours, case), by_torch, strict=True):
            for parameter, value in zip(own, layer, strict=True):
                parameter.copy_(value.view_as(parameter))
    options = {"lengths": given.lengths} if case.shortest else {"reset": given.reset}
    found, _ = ours(given.x, **options)
    if case.shortest:  # the others' are packed
        found = pack_padded_sequence(found, given.lengths, enforce_sorted=False).data
    for each in wanted.values():
        torch.testing.assert_close(found, each)


def by_layer(rnn, case):
    """Its parameters of each direction of each layer, in torch's order."""
    for layer in range(case.layers):
        for end in ("", "_reverse") if case.both else ("",):
            yield [
                getattr(rnn, f"{name}_l{layer}{end}") for name in ("weight_ih", "weight_hh", "bias")
            ]


def test_a_contender_that_fails_is_a_line():
    contenders = [("rnnc", lambda: lambda: None), ("broken", lambda: 1 / 0)]
    found = measure_modules(RESETS, contenders, "cpu", 3)
    assert found.failures == {"broken": "ZeroDivisionError: division by zero"}
    assert list(found.record()["sides"]) == ["rnnc"]
    console = Console(width=200, record=True)
    console.print(ragged_table([found]))
    assert "broken: did not run (ZeroDivisionError: division by zero)" in console.export_text()


def test_a_contender_that_compiles_for_too_long_is_a_line():
    contenders = [("rnnc", lambda: lambda: None), ("slow", lambda: time.sleep(60))]
    found = measure_modules(RESETS, contenders, "cpu", 3, ready=0.2)
    assert found.failures == {"slow": "it was not compiled within 0 s"}
    assert list(found.sides) == ["rnnc"]


def test_the_cases_have_names_of_their_own():
    for device in ("cpu", "cuda"):
        names = [str(case) for case in ragged_cases(device)]
        assert len(set(names)) == len(names)


def test_a_word_that_names_no_case_is_refused():
    assert [case.hidden for case in ragged_cases("cuda", "gru")] == [64, 64, 256]
    assert ragged_cases("cuda", "2") == ragged_cases("cuda")[1:2]
    with pytest.raises(BenchError, match="--cases 'grus'"):
        ragged_cases("cuda", "grus")


def test_no_contender_runs_behind_another_more_often_than_the_other_behind_it():
    """The second of two calls finds warm caches, so a fixed order measures the order."""
    ran = []
    clocks = {name: lambda name=name: ran.append(name) for name in "abcde"}
    later = time.monotonic() + 60
    in_turns(clocks, 8, later, shuffled=True)
    rounds = [ran[first : first + 5] for first in range(0, 40, 5)]
    assert all(sorted(each) == list("abcde") for each in rounds)
    behind = Counter(pair for each in rounds for pair in pairwise(each))
    assert all(count == behind[second, first] for (first, second), count in behind.items())
    assert len({tuple(each) for each in rounds}) > 2
    ran.clear()
    in_turns(clocks, 3, later)
    assert ran == list("abcde") * 3
