import importlib.util
from pathlib import Path

import pytest
import torch
from rnnc.codegen.cuda.limits import limits_of

PATH = Path(__file__).parents[2] / "examples" / "parity.py"


@pytest.fixture(scope="module")
def parity():
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("example_parity", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_labels_are_running_parity(parity):
    bits, labels = parity.strings(7, 13, torch.Generator().manual_seed(0))
    for row, expected in zip(bits.tolist(), labels.tolist(), strict=True):
        assert expected == [sum(row[: t + 1]) % 2 for t in range(13)]


def test_strings_hold_both_classes_at_every_length(parity):
    _, labels = parity.strings(1000, 40, torch.Generator().manual_seed(0))
    assert ((labels.float().mean(0) - 0.5).abs() < 0.1).all()


@pytest.mark.parametrize("name", ["elman", "toggle", "transformer"])
def test_models_do_not_see_later_bits(parity, name):
    torch.manual_seed(0)
    model = parity.Classifier(name)
    bits, _ = parity.strings(4, 20, torch.Generator().manual_seed(0))
    changed = bits.clone()
    changed[:, 12:] = 1 - changed[:, 12:]
    before, after = model(bits), model(changed)
    torch.testing.assert_close(before[:, :12], after[:, :12])
    assert not torch.allclose(before[:, 12:], after[:, 12:])


def test_toggle_gradients(parity):
    torch.manual_seed(0)
    rnn = parity.rnnc.RNN(parity.toggle, 3, 4, batch_first=True, dtype=torch.float64)
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    names, weights = zip(*rnn.named_parameters(), strict=True)
    assert "gain_l0" in names

    def run(x, *weights):
        y, (last,) = torch.func.functional_call(rnn, dict(zip(names, weights, strict=True)), (x,))
        return y, last

    assert torch.autograd.gradcheck(run, (x, *weights))


def test_toggle_keeps_and_flips_a_bit(parity):
    """Gates of +5 and -5 keep and flip a latched unit, without fading over 1000 steps."""
    signs = torch.ones(1000)
    signs[::7] = -1
    wx = torch.stack([5 * signs, torch.zeros(1000)], dim=-1).view(1, 1000, 1, 1, 2)
    zero = torch.zeros(2, 1, 1, 1)
    (h,), _ = parity.rnnc.scan(
        *(parity.toggle, wx, zero),
        states=[torch.full((1, 1, 1), 0.9)],
        params={"gain": torch.full((1, 1), 1.5)},
    )
    assert torch.equal(h.flatten().sign(), signs.cumprod(0))
    assert h.abs().min() > 0.8


def test_short_run_writes_everything_and_admits_failure(parity, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(parity, "LONGEST", 48)
    with pytest.raises(parity.typer.Exit) as stop:
        parity.main(out=tmp_path / "demo", steps=1)
    assert stop.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "Below 0.99 on 40 to 48: elman, gru, lstm, slstm, toggle" in shown
    for name, published in {**parity.PUBLISHED, "toggle": "-"}.items():
        row = next(line for line in shown.splitlines() if line.startswith(f"│ {name} "))
        assert row.rstrip("│ ").endswith(f" {published}")
    assert (tmp_path / "demo" / "parity.png").read_bytes().startswith(b"\x89PNG")
    for name, cell in parity.CELLS.items():
        assert (tmp_path / "demo" / "sources" / f"{name}.cpp").read_text() == cell.cpp().code


def test_accuracy_counts_right_answers_by_length(parity):
    bits, labels = parity.strings(8, 6, torch.Generator().manual_seed(0))

    def model(_):  # right up to the third bit, wrong after it
        answers = torch.where(torch.arange(6) < 3, labels, 1 - labels)
        return torch.nn.functional.one_hot(answers, 2).float()

    assert parity.accuracy(model, bits, labels).tolist() == [1, 1, 1, 0, 0, 0]


def test_sources_are_those_of_the_device_that_trains(parity, tmp_path, monkeypatch):
    parity.write_sources(tmp_path / "cpu")
    assert (tmp_path / "cpu" / "lstm.cpp").read_text() == parity.cells.lstm.cpp().code
    monkeypatch.setattr(parity, "DEVICE", "cuda")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(parity, "device_limits", lambda index: limits_of("H200"))
    parity.write_sources(tmp_path / "gpu")
    assert {path.name for path in (tmp_path / "gpu").iterdir()} == {
        f"{name}.cu" for name in parity.CELLS
    }
    assert "using Element = float;" in (tmp_path / "gpu" / "lstm.cu").read_text()
