"""`examples/recurrent_ppo.py`: `make test-peers` installs what it needs."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

PATH = Path(__file__).parents[2] / "examples" / "recurrent_ppo.py"


def load():
    spec = importlib.util.spec_from_file_location("example_recurrent_ppo", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def example(monkeypatch):
    """The example with small settings."""
    for package in ("matplotlib", "gymnasium", "sb3_contrib"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    module = load()
    small = {"n_steps": 40, "batch_size": 50, "n_epochs": 2}
    monkeypatch.setattr(module, "SETTINGS", module.SETTINGS | small)
    monkeypatch.setattr(module, "ENVIRONMENTS", 3)
    monkeypatch.setattr(module, "HIDDEN", 8)
    return module


def build(example, recurrence, cell="lstm", env="CartPole-v1"):
    return example.build(recurrence, getattr(example.rnnc.cells, cell), env, 0, "cpu")


def test_what_to_install_is_said(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(SystemExit, match="pip install sb3-contrib gymnasium"):
        load()


def test_a_short_run_writes_curves_and_times(example, tmp_path, capsys):
    example.main(cell="gru", steps=240, seeds=2, out=tmp_path)
    shown = capsys.readouterr().out
    assert "rnnc (gru)" in shown
    written = (tmp_path / "recurrent_ppo.json").read_text()
    found = json.loads(written)
    assert [(r["recurrence"], r["seed"]) for r in found["runs"]] == [
        (recurrence, seed)
        for seed in range(2)
        for recurrence in ("sb3-contrib", "as torch", "rnnc")
    ]
    for run in found["runs"]:
        assert run["steps"] == [120, 240]
        assert len(run["rewards"]) == 2
        assert len(run["updates"]) == len(run["rollouts"]) == 2
        assert min(run["updates"]) > 0
    assert str(tmp_path) not in written
    picture = (tmp_path / "recurrent_ppo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 200_000


def copy_weights(theirs, ours):
    """Give a policy with a cell the weights of sb3-contrib's; the names of both that match."""
    own, names = dict(ours.named_parameters()), {}
    with torch.no_grad():
        for name, value in theirs.named_parameters():
            head, _, last = name.partition("_l0")[0].rpartition(".")
            if not head.startswith("lstm"):
                names[name] = name
            elif last.startswith("weight"):
                names[name] = f"{head}.rnn.{last}_l0"
            else:
                names[name] = f"{head}.rnn.bias_l0"  # the sum of torch's two
                value.fill_(0.05)
                own[names[name]].fill_(0.1)
            if "bias_l0" not in names[name]:
                own[names[name]].copy_(value)
    assert {*names.values()} == {*own}
    return names


def test_whole_sequences_with_resets_are_the_cut_and_padded_ones(example):
    """The same rollout and weights: the same values and gradients, in fewer and longer rows."""
    theirs, ours = build(example, "sb3-contrib"), build(example, "rnnc")
    names = copy_weights(theirs.policy, ours.policy)
    _, callback = theirs._setup_learn(1)
    theirs.collect_rollouts(theirs.env, callback, theirs.rollout_buffer, 40)
    assert 0 < theirs.rollout_buffer.episode_starts[1:].sum() < 60
    ours.rollout_buffer.__dict__.update(theirs.rollout_buffer.__dict__)
    results, rows = [], []
    for ppo in (theirs, ours):
        example.np.random.seed(0)
        ppo.policy.zero_grad()
        found = []
        for batch in ppo.rollout_buffer.get(50):
            rows.append(batch.lstm_states.pi[0].shape[1])
            outputs = ppo.policy.evaluate_actions(
                batch.observations, batch.actions.flatten(), batch.lstm_states, batch.episode_starts
            )
            found.append(torch.stack([o.flatten()[batch.mask > 0.5] for o in outputs]))
        results.append(torch.cat(found, 1))
        weights = torch.linspace(0.5, 1.5, results[-1].numel()).view_as(results[-1])
        (results[-1] * weights).sum().backward()
    assert sum(rows[3:]) < sum(rows[:3])
    assert results[0].shape == (3, 120)
    torch.testing.assert_close(results[1], results[0])
    own = dict(ours.policy.named_parameters())
    for name, parameter in theirs.policy.named_parameters():
        torch.testing.assert_close(
            own[names[name]].grad, parameter.grad, rtol=1e-4, atol=1e-4, msg=name
        )


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["gru", "lstm", "slstm"])
def test_states_of_any_cell_pass_through_two_tensors(example, cell, layers):
    torch.manual_seed(0)
    memory = example.Memory(getattr(example.rnnc.cells, cell), 3, 8, layers)
    x, starts = torch.randn(7, 5, 3), torch.rand(7, 5) < 0.3
    pair = first = torch.randn(2, memory.num_layers, 5, 8).abs().unbind(0)
    whole, last = memory(x, first, starts)
    for t in range(7):
        y, pair = memory(x[t : t + 1], pair, starts[t : t + 1])
        assert [s.shape for s in pair] == [s.shape for s in first]
        torch.testing.assert_close(y[0], whole[t])
    for each, other in zip(pair, last, strict=True):
        torch.testing.assert_close(each, other)


def test_continuous_actions_saving_and_loading(example, tmp_path):
    ppo = build(example, "rnnc", "slstm", "Pendulum-v1").learn(120)
    ppo.save(tmp_path / "policy.zip")
    again = example.RecurrentPPO.load(tmp_path / "policy.zip")
    assert type(again.rollout_buffer) is example.WholeSequences
    seen, begins = example.np.ones((3, 2), "float32"), example.np.ones(3, bool)
    first, states = ppo.predict(seen, None, begins, deterministic=True)
    assert states[0].shape == (2, 3, 8)  # four states of one layer, as two tensors
    later, states = ppo.predict(seen, states, ~begins, deterministic=True)
    assert not example.np.array_equal(first, later)  # it remembers
    fresh, _ = ppo.predict(seen, states, begins, deterministic=True)
    loaded, _ = again.predict(seen, None, begins, deterministic=True)
    assert example.np.array_equal(first, fresh)
    assert example.np.array_equal(first, loaded)


def test_wrong_words_get_one_clear_line(example):
    with pytest.raises(SystemExit, match="no cell of the name 'lstmm'"):
        example.main(cell="lstmm")
    with pytest.raises(SystemExit, match="add it to POSITIONS"):
        example.main(env="Acrobot-v1")
