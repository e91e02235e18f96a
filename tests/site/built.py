"""Reads built pages: what they load, what they link to, and the ids that links may name."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

SITE = Path(__file__).parents[2] / "build" / "site"

# Attributes that a browser fetches by itself. Of `link`, only these relations are fetched.
_LOADS = {
    ("audio", "src"),
    ("embed", "src"),
    ("iframe", "src"),
    ("img", "src"),
    ("image", "href"),
    ("image", "xlink:href"),
    ("input", "src"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("track", "src"),
    ("use", "href"),
    ("use", "xlink:href"),
    ("video", "poster"),
    ("video", "src"),
}
_NOT_FETCHED = {"canonical", "prev", "next", "author", "license", "alternate", "edit"}
_STYLE_URL = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)|@import\s+["']([^"']+)["']""")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_HOSTS = re.compile(r"https?://[\w.-]+(?:/[\w./@-]*)?")


class Page(HTMLParser):
    """One page, as it was parsed.

    Attributes:
        loads: what a browser fetches to show it.
        links: what a reader may click on.
        ids: the anchors of the page.
        unnamed: pictures without a text in their place.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.unnamed: list[str] = []
        self._style = False

    @classmethod
    def read(cls, file: Path) -> Page:
        page = cls()
        page.feed(file.read_text(encoding="utf-8"))
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self._style = tag == "style"
        for name, value in given.items():
            if (tag, name) in _LOADS:
                self.loads.append(value)
            elif name == "srcset":
                self.loads += [part.split()[0] for part in value.split(",")]
            elif name == "style":
                self.loads += style_urls(value)
        if tag == "link" and not set(given.get("rel", "").split()) & _NOT_FETCHED:
            self.loads.append(given.get("href", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "img" and not given.get("alt"):
            self.unnamed.append(given.get("src", ""))

    def handle_data(self, data: str) -> None:
        if self._style:
            self.loads += style_urls(data)

    def handle_endtag(self, tag: str) -> None:
        self._style = False


def style_urls(text: str) -> list[str]:
    """What a style sheet fetches."""
    return [found[1] or found[2] for found in _STYLE_URL.finditer(text)]


def hosts_of(script: str) -> set[str]:
    """All addresses of other hosts in a script, outside of comments."""
    return set(_HOSTS.findall(_COMMENT.sub("", script)))


def is_outside(address: str) -> bool:
    """Whether an address is that of another host, or of another scheme than a file's."""
    return bool(re.match(r"[a-z]+:|//", address)) and not address.startswith("data:")
