import math

import pytest
import torch
from torch.nn import functional


@pytest.fixture(scope="module")
def training(part):
    return part("language_model.training")


@pytest.fixture(scope="module")
def text(part):
    tokens = torch.randint(256, (4001,), generator=torch.Generator().manual_seed(1))
    corpus = {"digest": "1234", "validation": {"bytes": 1001}}
    both = tokens.to(torch.int16), tokens[:1001].to(torch.int16)
    return part("language_model.tokens").Tokens(*both, 256, corpus)


@pytest.fixture
def start(training, text, part):
    size = part("language_model.models").SIZES["tiny"]

    def build(model="lstm", **changes):
        settings = {"context": 16, "batch": 4, "steps": 40, "rate": 1e-3} | changes
        return training.Training(training.Settings(model, "tiny", **settings), size, text, "cpu")

    return build


def test_each_pass_reads_each_window_once_in_another_order(training):
    tokens = torch.arange(161, dtype=torch.int16)
    windows = training.Windows(tokens, 16, "cpu", seed=3)
    assert len(windows) == 10
    read = torch.cat([windows.batch(step, 4) for step in range(5)])  # two passes
    assert read.shape == (20, 17)
    for row in read:
        assert torch.equal(row, torch.arange(row[0], row[0] + 17))
    starts = (read[:, 0] // 16).tolist()
    assert sorted(starts[:10]) == sorted(starts[10:]) == list(range(10))
    assert starts[:10] != starts[10:]
    again = training.Windows(tokens, 16, "cpu", seed=3)
    assert torch.equal(again.batch(3, 4), read[12:16])  # of any step without those before
    assert training.Windows(tokens, 16, "cpu", seed=4).batch(0, 4).tolist() != read[:4].tolist()


def test_too_little_text_is_refused(training):
    with pytest.raises(SystemExit, match="too few for context 16"):
        training.Windows(torch.zeros(16, dtype=torch.int16), 16, "cpu")


@pytest.mark.parametrize("model", ["slstm", "transformer"])
def test_gradients_by_chunks_are_those_of_the_mean_loss(start, training, monkeypatch, model):
    run = start(model)
    batch = run.train.batch(0, 4)
    logits = run.model.logits(run.model(batch[:, :-1])).flatten(0, 1)
    wanted = functional.cross_entropy(logits, batch[:, 1:].flatten())
    names, weights = zip(*run.model.named_parameters(), strict=True)
    gradients = dict(zip(names, torch.autograd.grad(wanted, weights), strict=True))
    monkeypatch.setattr(training, "CHUNK", 24)  # 64 tokens: two whole chunks, and a part
    loss = run.backward(batch)
    torch.testing.assert_close(loss, wanted)
    for name, weight in run.model.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[name], msg=lambda m, n=name: f"{n}: {m}")


def test_rate_rises_then_follows_a_cosine(start):
    run, rates = start(), []
    for run.step in range(40):
        rates.append(run.rate())
    assert rates[:2] == [5e-4, 1e-3]  # 5 % of 40 steps
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert rates[21] == pytest.approx(5.5e-4)
    assert rates[-1] == pytest.approx(1e-4, rel=0.1)


def test_perplexity_is_that_of_the_validation_text(start):
    run = start()
    windows = run.held_out.windows.long()
    with torch.no_grad():
        logits = run.model.logits(run.model(windows[:, :-1]))
    loss = functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    assert run.perplexity() == pytest.approx(math.exp(loss), rel=1e-5)
    far = len(windows) // 2  # the two windows are at equal distances
    two = functional.cross_entropy(logits[[0, far]].flatten(0, 1), windows[[0, far], 1:].flatten())
    assert run.perplexity(most=32) == pytest.approx(math.exp(two), rel=1e-5)


def test_no_token_is_read_more_than_four_times(start):
    assert start().most_steps() == 4 * 250 // 4


def test_checkpoint_of_another_run_is_refused(start, tmp_path, text, monkeypatch):
    start().save(tmp_path / "a.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]
    for other in ({"model": "slstm"}, {"rate": 2e-3}, {"steps": 41}):
        with pytest.raises(SystemExit, match=r"holds model lstm, .*; this run is model"):
            start(**other).load(tmp_path / "a.pt")
    monkeypatch.setitem(text.corpus, "digest", "another")
    with pytest.raises(SystemExit, match=r"text 1234; this run is .* text another"):
        start().load(tmp_path / "a.pt")


def test_speed_is_of_training_steps(part):
    speed = part("language_model.speed")
    row = speed.measure("transformer", "tiny", 16, 2, "cpu", 0.05, compiled=False)
    assert row["tokens_per_second"] == pytest.approx(32 / row["ms_per_step"] * 1e3)
    assert row["parameters"] > 1e5
    assert speed.contenders("cpu") == ["lstm", "slstm", "transformer", "nn-lstm"]
    assert "nn-lstm-fp16" in speed.contenders("cuda")
