"""Which files are the corpus: the standard library and installed packages, or a folder."""

import os
import platform
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from importlib import metadata
from pathlib import Path

SUFFIXES = {".py", ".pyi", ".md", ".rst", ".txt"}
SMALLEST, LARGEST = 200, 1_000_000  # bytes
# Folders of copies of other packages, and of compiled files.
SKIPPED = set(
    "_vendor _vendored _vendored_packages vendor vendored third_party thirdparty extern externals"
    " site-packages dist-packages __pycache__".split()
)
LETTERS = bytes([*range(ord("a"), ord("z") + 1), *range(ord("A"), ord("Z") + 1)])
PIECES = 20  # of a single file: each is what a package is elsewhere


@dataclass(frozen=True)
class Place:
    """Where a file is and whose it is; a file without a package is its own."""

    package: str
    version: str
    name: str
    path: Path


@dataclass(frozen=True)
class Text:
    """The content of a file."""

    package: str
    version: str
    name: str
    content: bytes

    @cached_property
    def digest(self) -> str:
        """Of the content."""
        return sha256(self.content).hexdigest()


def installed() -> list[Place]:
    """The files of the standard library, then those of packages, each list in order of names."""
    found = {"": list(standard_library())}
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        # A name that is found twice is imported from the place that comes first. rnnc is left out,
        # so that the corpus does not change with it.
        if name and name != "rnnc" and name not in found:
            found[name] = [
                Place(name, distribution.version, str(file), Path(str(file.locate())))
                for file in distribution.files or ()
                if wanted(file.parts)
            ]
    return [
        place for name in sorted(found) for place in sorted(found[name], key=lambda each: each.name)
    ]


def standard_library() -> Iterator[Place]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for folder, folders, names in os.walk(root):
        folders[:] = {*folders} - SKIPPED
        for path in (Path(folder, name) for name in names):
            file = path.relative_to(root)
            if wanted(file.parts):
                yield Place("python", platform.python_version(), file.as_posix(), path)


def small() -> list[Place]:
    """A part of the standard library, by its own packages: enough for a model of no size."""
    places = sorted(standard_library(), key=lambda each: each.name)
    return [
        replace(place, package=place.name.split("/")[0])
        for place in places
        if not {"test", "tests", "idle_test"} & set(place.name.split("/"))
    ]


def wanted(parts: tuple[str, ...]) -> bool:
    """Whether a file is a source or a text of the package itself."""
    return (
        Path(parts[-1]).suffix in SUFFIXES
        and not SKIPPED & set(parts[:-1])
        and ".." not in parts
        and not any(part.endswith((".dist-info", ".egg-info")) for part in parts)
    )


def folder(root: Path) -> list[Place]:
    """All files of a folder; what lies in one folder of it is one package."""
    if not root.exists():
        raise SystemExit(f"--data {root}: there is no such folder")
    paths = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
    names = [path.name if path == root else path.relative_to(root).as_posix() for path in paths]
    tops = {name.split("/")[0] for name in names}
    return [
        Place(name.split("/")[0] if len(tops) > 1 else name, "", name, path)
        for name, path in zip(names, paths, strict=True)
    ]


def read(places: list[Place], *, choose: bool) -> list[Text]:
    """The texts of files.

    Args:
        places: the files.
        choose: whether very short, very long and unusual files are left out: tables of numbers,
            lines as long as a page.
    """
    texts = []
    for place in places:
        try:
            content = place.path.read_bytes().replace(b"\r\n", b"\n")
            content.decode()
        except (OSError, UnicodeDecodeError):  # removed since it was installed, or no text
            continue
        if content.strip() and (not choose or is_prose_or_code(content)):
            texts.append(Text(place.package, place.version, place.name, content))
    return texts


def is_prose_or_code(content: bytes) -> bool:
    letters = len(content) - len(content.translate(None, LETTERS))
    lines = content.count(b"\n") + 1
    return (
        SMALLEST <= len(content) <= LARGEST
        and letters > 0.3 * len(content)
        and len(content) < 200 * lines
    )


def pieces(text: Text) -> list[Text]:
    """A text cut at line breaks into parts of about equal length."""
    lines = text.content.splitlines(keepends=True)
    parts: list[list[bytes]] = [[] for _ in range(PIECES)]
    start = 0
    for line in lines:
        parts[start * PIECES // len(text.content)].append(line)
        start += len(line)
    named = ((f"{text.name}:{i}", b"".join(part)) for i, part in enumerate(parts) if part)
    return [Text(name, text.version, name, content) for name, content in named]
