"""The corpus: texts without duplicates, split by package, with a manifest."""

import csv
import io
import platform
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from . import duplicates, files
from .files import Text

HELD_OUT = 0.04  # of all bytes, at most, for validation


@dataclass(frozen=True)
class Corpus:
    """Texts for training and for validation, and how many were left out, by reason."""

    train: list[Text]
    validation: list[Text]
    left_out: dict[str, int] = field(default_factory=dict)

    @cached_property
    def manifest(self) -> str:
        """A line of CSV per file: split, package, version, file, bytes and digest."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow("split package version file bytes digest".split())
        for split in ("train", "validation"):
            for each in getattr(self, split):
                row = each.package, each.version, each.name, len(each.content), each.digest
                writer.writerow([split, *row])
        return text.getvalue()

    @cached_property
    def digest(self) -> str:
        """Of the manifest: machines with the same packages have the same one."""
        return sha256(self.manifest.encode()).hexdigest()

    def summary(self) -> dict[str, Any]:
        """The digest, the sizes, and the packages of both splits with version and bytes."""
        told: dict[str, Any] = {"digest": self.digest, "left out": self.left_out}
        for split in ("train", "validation"):
            packages: dict[str, int] = defaultdict(int)
            for text in getattr(self, split):
                packages[f"{text.package} {text.version}".strip()] += len(text.content)
            told[split] = {
                "bytes": sum(packages.values()),
                "files": len(getattr(self, split)),
                "packages": dict(packages),
            }
        return told


def build(data: Path | None = None, *, small: bool = False) -> Corpus:
    """Read the corpus.

    Args:
        data: a folder or a file of text in place of the installed packages.
        small: whether a part of the standard library is enough, in their place.
    """
    installed = files.small if small else files.installed
    texts = files.read(files.folder(data) if data else installed(), choose=not data)
    if data and len(texts) == 1:
        texts = files.pieces(texts[0])
    same = duplicates.exact([text.digest for text in texts])
    distinct = [text for i, text in enumerate(texts) if i not in same]
    copies = duplicates.near([text.content for text in distinct])
    kept = [text for i, text in enumerate(distinct) if i not in copies]
    if len({text.package for text in kept}) < 2:
        raise SystemExit(
            f"{data or 'this installation'} has too little text to hold some of it out"
        )
    held_out = validation_packages(kept)
    return Corpus(
        [text for text in kept if text.package not in held_out],
        [text for text in kept if text.package in held_out],
        {"same bytes": len(same), "near duplicates": len(copies)},
    )


def validation_packages(texts: list[Text]) -> set[str]:
    """Packages in an order that looks random, as long as they fit into `HELD_OUT`."""
    sizes: dict[str, int] = defaultdict(int)
    for text in texts:
        sizes[text.package] += len(text.content)
    room, chosen = HELD_OUT * sum(sizes.values()), set()
    for name in sorted(sizes, key=lambda name: sha256(name.encode()).digest()):
        if sizes[name] <= room:
            chosen.add(name)
            room -= sizes[name]
    return chosen or {min(sizes, key=lambda name: (sizes[name], name))}


def source_digest(data: Path | None, *, small: bool) -> str:
    """What the corpus is made of, without reading it: packages, or the files of a folder."""
    if data is None:
        names = sorted(f"{d.metadata['Name']} {d.version}" for d in metadata.distributions())
        told = [platform.python_version(), *([] if small else names)]
    else:
        told = [
            f"{p.name} {p.path.stat().st_size} {p.path.stat().st_mtime_ns}"
            for p in files.folder(data)
        ]
    rules = [
        Path(module.__file__).read_text("utf-8")
        for module in (files, duplicates)
        if module.__file__
    ]
    return sha256(
        "\n".join([*told, *rules, Path(__file__).read_text("utf-8")]).encode()
    ).hexdigest()
