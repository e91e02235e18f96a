import sys

import pytest
import torch


@pytest.fixture(scope="module")
def tokens(part):
    return part("language_model.tokens")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for number in range(30):
        words = [f"def function_{number}_{i}(): return 'é' * {i}" for i in range(50)]
        (folder / f"{number:02}.py").write_text("\n".join(words))
    return folder


def test_bytes_are_the_text(tokens, data, tmp_path):
    found = tokens.prepare(tmp_path, 256, data)
    texts = bytes(found.train.tolist()).split(b"\0")
    held_out = bytes(found.validation.tolist()).split(b"\0")
    assert texts[0] == held_out[0] == b""
    assert {*texts[1:], *held_out[1:]} == {path.read_bytes() for path in data.iterdir()}
    assert len(texts) + len(held_out) == 32
    assert found.bytes_per_token == pytest.approx(1, abs=1e-3)
    assert found.vocabulary == 256


def test_prepared_tokens_are_loaded_until_a_file_changes(tokens, data, tmp_path, monkeypatch):
    first = tokens.prepare(tmp_path, 256, data)
    build, calls = tokens.corpus.build, []
    monkeypatch.setattr(
        tokens.corpus, "build", lambda d, **more: calls.append(d) or build(d, **more)
    )
    again = tokens.prepare(tmp_path, 256, data)
    assert torch.equal(again.train, first.train)
    assert again.corpus == first.corpus
    assert not calls
    (data / "00.py").write_text("print('another text')\n" * 9)
    assert tokens.prepare(tmp_path, 256, data).corpus["digest"] != first.corpus["digest"]
    assert len(calls) == 1
    assert len(list(tmp_path.glob("*/manifest.csv"))) == 2


def test_pairs_of_bytes_give_the_text_back(tokens, data, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    found = tokens.prepare(tmp_path, 320, data)
    (path,) = tmp_path.glob("*/tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    assert tokenizer.get_vocab_size() == 320
    texts = tokenizer.decode(found.train.tolist(), skip_special_tokens=False).split(tokens.END)
    assert set(texts[1:]) < {path.read_text() for path in data.iterdir()}
    assert 0 <= found.train.min() < found.train.max() < 320
    assert found.bytes_per_token > 2


def test_without_tokenizers_the_message_says_what_to_do(tokens, data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(SystemExit) as error:
        tokens.prepare(tmp_path, 16_384, data)
    assert "pip install tokenizers" in str(error.value)
    assert "--vocabulary 256" in str(error.value)
    assert not list(tmp_path.iterdir())
