"""What `make docs` builds the site from: every page has a place, notebooks have no outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def in_navigation() -> list[str]:
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\n\n")[0]
    return re.findall(r"([\w/]+\.md)$", text, re.MULTILINE)


def test_every_page_has_one_place_in_the_navigation() -> None:
    pages = [file.name for file in (ROOT / "docs").glob("*.md")]
    pages += [f"notebooks/{file.stem}.md" for file in NOTEBOOKS]
    pages += ["gallery.md", "changelog.md", "contributing.md"]
    found = [name for name in in_navigation() if not name.startswith("reference/")]
    assert sorted(found) == sorted(pages)


def test_every_page_of_the_reference_has_one_place_in_the_navigation() -> None:
    text = (ROOT / "docs" / "site" / "reference.py").read_text()
    keys = re.findall(r'^    "(\w+)": \($', text, re.MULTILINE)
    assert len(keys) > 5
    wanted = {f"reference/{key}.md" for key in (*keys, "index", "functions")}
    found = [name for name in in_navigation() if name.startswith("reference/")]
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_there_are_notebooks_that_define_inspect_and_train() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["define", "inspect", "train"]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_committed_without_outputs(file: Path) -> None:
    assert outputs_of(json.loads(file.read_text(encoding="utf-8"))) == []


def outputs_of(notebook: dict) -> list[str]:
    """The ids of cells with an output or a number of an execution."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    return [cell["id"] for cell in cells if cell["outputs"] or cell["execution_count"] is not None]


def test_a_notebook_with_outputs_is_noticed() -> None:
    cell = {"id": "a", "cell_type": "code", "outputs": [], "execution_count": 1}
    other = {"id": "b", "cell_type": "code", "outputs": [{}], "execution_count": None}
    assert outputs_of({"cells": [cell, other]}) == ["a", "b"]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_pictures_of_a_notebook_have_a_text_in_their_place(file: Path) -> None:
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    shown = [cell for cell in cells if "plt.show()" in "".join(cell["source"])]
    assert shown
    assert all(cell["metadata"].get("alt") for cell in shown)


def test_the_tools_of_the_site_are_pinned() -> None:
    folder = ROOT / "docs" / "site"
    lines = (folder / "requirements.txt").read_text().splitlines()
    wanted = [line.partition(";")[0] for line in lines]
    pinned = (folder / "constraints.txt").read_text().splitlines()
    assert all("==" in line for line in wanted)
    assert set(wanted) <= set(pinned)
