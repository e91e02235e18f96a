"""From texts to tokens: pairs of bytes merged to a vocabulary (BPE), or bytes themselves."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import corpus
from .files import Text

BYTES = 256  # as the size of a vocabulary: tokens are bytes
END = "<|end|>"  # between two files; as a byte 0
LEARNED_FROM = 40_000_000  # bytes, about: more of them hardly change the pairs
AT_ONCE = 512  # files that are encoded in one call
MISSING = (
    "A vocabulary of pairs of bytes needs one more package: pip install tokenizers\n"
    f"Without it, --vocabulary {BYTES} trains on bytes."
)


@dataclass(frozen=True)
class Tokens:
    """A corpus as two sequences of tokens (int16), and what it was made of."""

    train: Tensor
    validation: Tensor
    vocabulary: int
    corpus: dict[str, Any]

    @property
    def bytes_per_token(self) -> float:
        """Of the validation text."""
        return self.corpus["validation"]["bytes"] / len(self.validation)


def prepare(
    work: Path, vocabulary: int, data: Path | None = None, *, small: bool = False
) -> Tokens:
    """Read, clean and encode the corpus, or load what an earlier run left in the folder `work`.

    Args:
        work: a folder that may be large; gets the manifest of all files, the merges and the tokens.
        vocabulary: the number of tokens; `BYTES` for bytes.
        data: a folder or a file of text in place of the installed packages.
        small: whether a part of the standard library is enough, in their place.
    """
    ours = Path(__file__).read_text("utf-8")
    rules = f"{vocabulary} {corpus.source_digest(data, small=small)}\n{ours}"
    at = work / f"corpus-{sha256(rules.encode()).hexdigest()[:16]}"
    if not (at / "tokens.pt").exists():
        if vocabulary != BYTES:
            import_tokenizers()
        at.mkdir(parents=True, exist_ok=True)
        built = corpus.build(data, small=small)
        (at / "manifest.csv").write_text(built.manifest, "utf-8")
        (at / "corpus.json").write_text(json.dumps(built.summary()), "utf-8")
        splits = {"train": built.train, "validation": built.validation}
        if vocabulary == BYTES:
            encoded = {name: as_bytes(texts) for name, texts in splits.items()}
        else:
            tokenizer = learn(built.train, vocabulary)
            tokenizer.save(str(at / "tokenizer.json"))
            encoded = {name: encode(tokenizer, texts) for name, texts in splits.items()}
        torch.save(encoded, at / f"tokens-{os.getpid()}.pt")
        (at / f"tokens-{os.getpid()}.pt").rename(at / "tokens.pt")
    encoded = torch.load(at / "tokens.pt")
    return Tokens(
        **encoded, vocabulary=vocabulary, corpus=json.loads((at / "corpus.json").read_text("utf-8"))
    )


def import_tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise SystemExit(MISSING) from None
    return tokenizers


def learn(texts: list[Text], vocabulary: int) -> Any:
    """Merge the most frequent pairs until there are as many tokens as the vocabulary has."""
    tokenizers = import_tokenizers()
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    every = 1 + sum(len(text.content) for text in texts) // LEARNED_FROM
    sample = (text.content.decode() for text in texts[::every])
    tokenizer.train_from_iterator(sample, trainer)
    return tokenizer


def encode(tokenizer: Any, texts: list[Text]) -> Tensor:
    """The tokens of all texts, with `END` before each."""
    end = tokenizer.token_to_id(END)

    def parts() -> Iterator[Tensor]:
        for start in range(0, len(texts), AT_ONCE):
            batch = [text.content.decode() for text in texts[start : start + AT_ONCE]]
            for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                yield torch.tensor([end, *encoding.ids], dtype=torch.int16)

    return torch.cat(list(parts()))


def as_bytes(texts: list[Text]) -> Tensor:
    """The bytes of all texts, with a 0 before each."""
    content = b"".join(b"\0" + text.content for text in texts)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).to(torch.int16)
