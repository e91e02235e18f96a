"""The built site: no page asks another host, all links lead somewhere, nothing is left out."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import rnnc

from ..one_stage import ONE_STAGE

_spec = importlib.util.spec_from_file_location("built", Path(__file__).with_name("built.py"))
built = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(built)

SITE = built.SITE
PAGES = {file: built.Page.read(file) for file in sorted(SITE.rglob("*.html"))}
NAMES = [file.relative_to(SITE).as_posix() for file in PAGES]
EVERY = pytest.mark.parametrize("name", NAMES)

# What the theme asks only for diagrams, for facts of a repository and in old browsers, and a word
# of the search's error message. tests/web opens pages in a browser and sees what they ask.
THEME = {
    "https://api.github.com/repos/",
    "https://api.github.com/users/",
    "https://bit.ly/2s3ChXG",
    "https://unpkg.com/mermaid@11/dist/mermaid.min.js",
    "https://unpkg.com/resize-observer-polyfill",
}


def test_there_are_pages() -> None:
    assert len(PAGES) > 60


@EVERY
def test_a_page_loads_its_own_files_alone(name: str) -> None:
    file = SITE / name
    for address in PAGES[file].loads:
        assert not built.is_outside(address), address
        if not address.startswith(("data:", "#")):
            assert target_of(file, address).is_file(), address


@EVERY
def test_links_lead_to_pages_and_anchors(name: str) -> None:
    file = SITE / name
    if name == "404.html":
        return  # its links are absolute: it is shown at any address
    for address in PAGES[file].links:
        if built.is_outside(address) or address.startswith("data:"):
            continue
        target = target_of(file, address)
        assert target.is_file(), address
        anchor = unquote(urlsplit(address).fragment)
        if anchor and target.suffix == ".html":
            assert anchor in PAGES[target].ids | {"__top"}, address


@EVERY
def test_pictures_have_a_text_in_their_place(name: str) -> None:
    assert PAGES[SITE / name].unnamed == []


def target_of(file: Path, address: str) -> Path:
    path = unquote(urlsplit(address).path)
    # The page of unknown addresses has absolute links, below the address of the site.
    top = urlsplit(os.environ.get("SITE_URL", "")).path or "/"
    found = SITE / path.removeprefix(top) if path.startswith("/") else file.parent / path
    found = found.resolve() if path else file
    return found / "index.html" if found.is_dir() else found


@pytest.mark.parametrize("pattern", ["*.css", "*.svg"])
def test_styles_and_pictures_load_nothing_from_another_host(pattern: str) -> None:
    files = list(SITE.rglob(pattern))
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not [u for u in built.style_urls(text) if built.is_outside(u)], file
        assert not re.search(r'(?:href|src)="(?:https?:)?//', text), file


def test_scripts_name_no_host_but_those_that_the_theme_never_asks_here() -> None:
    index = json.loads((SITE / "search" / "search_index.json").read_text())
    assert index["config"]["lang"] == ["en"]  # the worker loads no file of another language
    scripts = [file for file in SITE.rglob("*.js") if "lunr" not in file.parts]
    assert len(scripts) >= 2
    assert {host for file in scripts for host in built.hosts_of(file.read_text())} <= THEME
    for file in PAGES:
        text = file.read_text(encoding="utf-8")
        assert 'class="mermaid"' not in text, file
        assert 'data-md-component="source"' not in text, file


def test_a_page_that_asks_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for text in (
        '<script src="https://a.example/x.js"></script>',
        '<link rel="stylesheet" href="//a.example/x.css">',
        '<img alt="x" src="http://a.example/x.png">',
        "<style>@import 'https://a.example/x.css';</style>",
        '<p style="background: url(https://a.example/x.png)">',
        '<img alt="x" src="x.png" srcset="https://a.example/x.png 2x">',
    ):
        page.write_text(text)
        assert any(map(built.is_outside, built.Page.read(page).loads)), text
    page.write_text('<a href="https://a.example">x</a>')
    assert not built.Page.read(page).loads
    assert built.hosts_of('fetch("https://a.example/x")') == {"https://a.example/x"}


def test_every_cell_is_in_the_gallery_with_its_picture_and_its_report() -> None:
    gallery = (SITE / "gallery.html").read_text(encoding="utf-8")
    for name in rnnc.cells.names():
        assert f"The operations of {name}" in gallery
    for name in ONE_STAGE:
        assert f'href="reports/{name}.html"' in gallery
        assert f"<h1>{name}</h1>" in (SITE / "reports" / f"{name}.html").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference() -> None:
    ids = {i for file, page in PAGES.items() if "reference" in file.parts for i in page.ids}
    for name in ("rnnc.RNN", "rnnc.RNN.step", "rnnc.scan", "rnnc.nn.LSTM", "rnnc.Cell.cuda"):
        assert name in ids
    functions = re.findall(r"<code>(\w+)\(", (SITE / "reference/functions.html").read_text())
    shown = {i.removeprefix("rnnc.") for i in ids} | set(functions)
    modules = {"cells", "distributed", "init", "nn"}
    assert {name for name in dir(rnnc) if not name.startswith("_")} - modules <= shown


def test_notebooks_have_their_outputs_and_pictures() -> None:
    for name in ("define", "inspect", "train"):
        page = PAGES[SITE / "notebooks" / f"{name}.html"]
        assert any(address.endswith(".svg") for address in page.loads if name in address)


def test_the_search_finds_pages_cells_and_names() -> None:
    index = json.loads((SITE / "search" / "search_index.json").read_text())
    places = {entry["location"] for entry in index["docs"]}
    wanted = {"gallery.html#lstm", "reference/running.html#rnnc.RNN", "limits.html", "index.html"}
    assert wanted <= places, wanted - places
    # Pictures have words that are no text.
    assert not any(
        "1 −" in entry["text"] for entry in index["docs"] if "gallery" in entry["location"]
    )


def test_the_site_names_no_folder_of_the_machine_that_built_it() -> None:
    root = str(Path(__file__).parents[2])
    homes = {root, os.path.expanduser("~") + "/"}
    for file in SITE.rglob("*"):
        if file.suffix in {".html", ".json", ".js", ".css", ".svg", ".xml"}:
            text = file.read_text(encoding="utf-8")
            assert not any(home in text for home in homes), file
