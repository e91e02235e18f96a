import importlib.util
from pathlib import Path

import pytest
import torch

PATH = Path(__file__).parents[2] / "examples" / "char_lm.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("example_char_lm", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(example, monkeypatch):
    """The example on a few files."""
    big = [[f for f in files if f.stat().st_size > 20_000][:2] for files in example.source_files()]
    monkeypatch.setattr(example, "source_files", lambda: big)
    return example


def test_held_out_files_are_not_trained_on(example):
    train, held_out = example.source_files()
    assert not set(train) & set(held_out)
    assert (train, held_out) == example.source_files()
    assert 10 * len(held_out) < len(train) < 25 * len(held_out)
    assert not any({"test", "tests", "site-packages"} & {*path.parts} for path in train + held_out)


def test_windows_are_the_text_in_order(small, tmp_path):
    text = bytes(range(256)) * 40
    (tmp_path / "a.py").write_bytes(text)
    windows = small.windows([tmp_path / "a.py"], "cpu")
    stream = [windows[0][0, 1].item()]
    for window in windows:
        assert window.shape == (small.WINDOW + 1, small.BATCH)
        assert window[0, 1].item() == stream[-1]
        stream += window[1:, 1].tolist()
    length = len(text) // small.BATCH
    assert bytes(stream) == text[length : length + len(stream)]
    assert len(stream) > length - small.WINDOW


@pytest.mark.parametrize("cell", ["lstm", "slstm"])
def test_untrained_model_needs_eight_bits(small, cell):
    torch.manual_seed(0)
    model = small.ByteModel(getattr(small.rnnc.cells, cell), 16)
    held_out = small.windows(small.source_files()[1], "cpu")
    assert small.bits_per_byte(model, held_out[:4]) == pytest.approx(8, abs=0.3)


def test_states_carry_over_from_window_to_window(small):
    torch.manual_seed(0)
    model = small.ByteModel(small.rnnc.cells.gru, 16)
    text = torch.randint(0, 256, (12, 3))
    whole, _ = model(text)
    first, states = model(text[:5])
    second, _ = model(text[5:], states)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    loss, states = small.read(model, text.to(torch.uint8), None)
    assert loss.requires_grad
    assert not any(state.requires_grad for state in states)


def test_resumed_run_is_bitwise_that_of_an_uninterrupted_one(small, tmp_path, capsys):
    once, half, twice = (tmp_path / f"{name}.pt" for name in ("once", "half", "twice"))
    options = {"cell": "gru", "hidden": 16, "every": 100}
    assert len(small.windows(small.source_files()[0], "cpu")) > 6  # so that states carry over
    small.main(**options, steps=6, save=once)
    text_once = capsys.readouterr().out
    small.main(**options, steps=3, save=half, seed=0)
    capsys.readouterr()
    small.main(**options, steps=6, save=twice, resume=half, seed=1)
    text_twice = capsys.readouterr().out
    a, b, early = (torch.load(path) for path in (once, twice, half))
    assert a["step"] == b["step"] == 6
    for name, weight in a["model"].items():
        assert torch.equal(weight, b["model"][name]), name
        assert not torch.equal(weight, early["model"][name]), name
    torch.testing.assert_close(a["optimizer"], b["optimizer"], rtol=0, atol=0)
    torch.testing.assert_close(a["states"], b["states"], rtol=0, atol=0)
    for text in (text_once, text_twice):
        assert "step 6: " in text
    assert text_once[text_once.index("def ") :] == text_twice[text_twice.index("def ") :]
    rebuilt = small.rnnc.Cell.from_json(a["cell"])  # a checkpoint knows its cell without rnnc.cells
    assert rebuilt.fingerprint == small.rnnc.cells.gru.fingerprint


def test_checkpoint_of_another_model_is_refused(small, tmp_path):
    path = tmp_path / "model.pt"
    small.main(cell="gru", hidden=16, steps=1, save=path)
    for other in ({"cell": "gru", "hidden": 24}, {"cell": "lstm", "hidden": 16}):
        with pytest.raises(SystemExit) as error:
            small.main(**other, resume=path)
        assert "holds gru (" in str(error.value)
        assert f"{other['cell']} (" in str(error.value)
        assert str(error.value).endswith(f"with --hidden {other['hidden']}")


def test_sampling_continues_the_prompt(small):
    torch.manual_seed(0)
    model = small.ByteModel(small.rnnc.cells.lstm, 16)
    first, second = small.sample(model, b"def ", 20), small.sample(model, b"def ", 20)
    assert first.startswith(b"def ")
    assert len(first) == 24
    assert first != second  # drawn, not the most probable byte
    # Almost without temperature the steps' answers are the scan's most probable ones.
    greedy = small.sample(model, b"def ", 20, temperature=1e-6)
    logits, _ = model(torch.tensor(list(greedy)).view(-1, 1))
    assert list(greedy[4:]) == logits[3:-1, 0].argmax(-1).tolist()


def test_unknown_cell_gets_one_clear_error(example):
    with pytest.raises(SystemExit, match="found:  no cell of the name 'lstmm'") as error:
        example.main(cell="lstmm")
    assert error.value.__suppress_context__  # one error, not two
