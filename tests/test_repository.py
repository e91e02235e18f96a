"""The repository holds texts and pictures only: nothing large, no foreign binaries."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PICTURES = {".png", ".jpg", ".gif", ".svg"}
LARGEST = 200_000  # bytes


def tracked():
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout of git: nothing says what is tracked")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]  # a deleted one is listed until the commit


def is_binary(content):
    return b"\0" in content


def refused(files):
    """The binaries that are no pictures, and the large files that are no pictures or results."""
    return [
        file
        for file in files
        if file.suffix not in PICTURES
        and (
            is_binary(file.read_bytes())
            or (file.stat().st_size > LARGEST and ROOT / "benchmarks/results" not in file.parents)
        )
    ]


def test_what_is_tracked_is_text_or_a_picture_and_small():
    files = tracked()
    assert len(files) > 100
    assert not refused(files)


def test_wheels_libraries_and_large_files_would_be_refused(tmp_path):
    wheel, data, picture = (tmp_path / n for n in ("a-1.0-py3-none-any.whl", "data.csv", "a.png"))
    wheel.write_bytes(b"PK\3\4\0\0")
    data.write_text("1," * LARGEST)
    picture.write_bytes(b"\0" * (LARGEST + 1))
    assert refused([wheel, data, picture]) == [wheel, data]


def test_every_folder_of_the_package_is_installed():
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    rooms = setup["package-dir"]
    folders = {
        ".".join([room, *file.parent.relative_to(ROOT / folder).parts])
        for room, folder in rooms.items()
        for file in (ROOT / folder).rglob("__init__.py")
    }
    assert folders == set(setup["packages"])


def test_the_package_has_no_other_libraries_times_and_no_targets(tmp_path):
    """`benchmarks/anchors.json` has them, and nothing of `benchmarks` is installed."""
    anchors = json.loads((ROOT / "benchmarks" / "anchors.json").read_text())["rows"]
    times = [pair for row in anchors.values() for pair in row.values() if isinstance(pair, list)]
    assert len(times) > 30
    rooms = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    texts = [
        file.read_text()
        for folder in rooms["package-dir"].values()
        for file in (ROOT / folder).rglob("*")
        if file.suffix in {".py", ".pyi", ".json"}
    ]
    pairs = {
        text for forward, both in times for text in (f"{forward}, {both}", f"{forward:g}, {both:g}")
    }
    found = {pair for pair in pairs for text in texts if f"({pair})" in text or f"[{pair}]" in text}
    # An example of the file's form.
    assert found <= {"0.45, 1.3"}
    assert not any("anchors" in name for names in rooms["package-data"].values() for name in names)


def test_what_a_checkout_says_of_itself_is_true():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for file in (
        ".github/workflows/ci.yml",
        ".github/workflows/docs.yml",
        ".pre-commit-config.yaml",
    ):
        used = re.findall(r"(?:run|entry): make ([\w-]+)$", (ROOT / file).read_text(), re.M)
        assert used, file
        assert set(used) <= targets
    assert re.findall(r"- repo: (.*)", (ROOT / ".pre-commit-config.yaml").read_text()) == ["local"]
