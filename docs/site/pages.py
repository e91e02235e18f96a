"""Copies the Markdown files of the repository to the site, with links that hold there.

The files are written for GitHub. Four things differ on the site: files outside docs/ have other
places, a link that is named after a file gets the title of its page, a fence takes one word, and a
picture lies in the site's own folder.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

import pictures

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

# Files outside docs/ that are pages of the site, and their names there.
OTHERS = {
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
}
# What else a page links to, and the generated pages that show it.
GENERATED = {
    ROOT / "cellspec" / "library": "gallery.md",
    **{
        file: f"notebooks/{file.stem}.md"
        for file in (ROOT / "examples" / "notebooks").glob("*.ipynb")
    },
}
_PICTURES = {".png", ".svg"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)((?:#[^)]*)?)\)")
_ENTRY = re.compile(r"^ +- ([^:\n]+): ([\w/]+\.md)$", re.MULTILINE)
_FENCE = re.compile(r"^(```\w+) [^\n]*$", re.MULTILINE)
_SESSION = re.compile(r"^```python(?=\n>>> )", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def names() -> dict[Path, str]:
    """Each Markdown file of the repository that is a page, and its name on the site."""
    return {**{file: file.name for file in sorted(DOCS.glob("*.md"))}, **OTHERS}


@cache
def titles() -> dict[str, str]:
    """The title of each page in the navigation."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return {name: title for title, name in _ENTRY.findall(text)}


def write(output: Path) -> None:
    """Write all pages and their pictures.

    Args:
        output: the folder of the site's pages.
    """
    output.mkdir(parents=True, exist_ok=True)
    for file, name in names().items():
        (output / name).write_text(adapted(file, output), encoding="utf-8")
    shutil.copytree(Path(__file__).with_name("assets"), output / "assets")


def adapted(file: Path, output: Path) -> str:
    """The text of a page as the site has it; copies the pictures that it shows.

    Args:
        file: a Markdown file of the repository.
        output: the folder of the site's pages.

    Raises:
        ValueError: a link leads to a file that is not on the site.
    """

    def link(found: re.Match[str]) -> str:
        mark, text, target, anchor = found.groups()
        if re.match(r"\w+:", target):
            return found[0]
        place = _place(file, target, output)
        if text == Path(target).name:
            text = titles().get(place, text)
        return f"{mark}[{text}]({place}{anchor})"

    # Links are in the text, not in code.
    parts = _CODE.split(file.read_text(encoding="utf-8"))
    text = "".join(p if n % 2 else _LINK.sub(link, p) for n, p in enumerate(parts))
    return _SESSION.sub("```pycon", _FENCE.sub(r"\1", text))


def _place(file: Path, target: str, output: Path) -> str:
    path = (file.parent / target).resolve()
    known = {**names(), **GENERATED}
    if path in known:
        return known[path]
    if path.suffix in _PICTURES and path.exists():
        folder = output / "pictures"
        folder.mkdir(exist_ok=True)
        if name := pictures.drawn(path, folder):
            return f"pictures/{name}"
        shutil.copyfile(path, folder / path.name)
        return f"pictures/{path.name}"
    raise ValueError(f"{file.name} links to {target}, which is not on the site")
