"""Every page runs: its blocks in order, in one namespace and one folder, with the output it shows.

- ```python: runs; a first line `# name.py` also writes the block to that file;
- ```python raises: must raise an error of rnnc, as if it were the file my_cell.py;
- ```bash: lines that start with `rnnc` run, and must leave with exit code 0;
- ```text right after one of these: what it printed, or the error, to the letter.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import rnnc
from rnnc.cellspec.functions import TABLE
from rnnc.cellspec.library import NAMES
from rnnc.cellspec.stages.table import REDUCTIONS
from rnnc.cli.app import app
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its fence, its text, and where that starts in the page."""

    kind: str
    text: str
    start: int
    line: int


def blocks_of(text: str) -> list[Block]:
    return [
        Block(m[1].strip(), m[2], m.start(2), text[: m.start(2)].count("\n") + 1)
        for m in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def run_block(block: Block, page: str, names: dict[str, Any]) -> str | None:
    """What a block prints; None for a block that does not run."""
    if block.text.startswith(">>> "):
        return None  # an interactive page: the tests of its room run it by doctest
    if block.kind == "python":
        return run_python(block, page, names)
    if block.kind == "python raises":
        # The last statement of the block is at fault; the page shows the error below it.
        Path("my_cell.py").write_text(block.text, encoding="utf-8")
        with pytest.raises(rnnc.RnncError) as caught:
            exec(compile(block.text, "my_cell.py", "exec"), names)
        return f"{caught.value}\n"
    if block.kind == "bash":
        return "".join(map(run_line, block.text.splitlines()))
    return None


def run_python(block: Block, page: str, names: dict[str, Any]) -> str:
    file = re.match(r"# (\w+\.py)\n", block.text)
    if file:
        Path(file[1]).write_text(block.text, encoding="utf-8")
    # Empty lines above, so that a traceback shows the page's own line.
    code = compile("\n" * (block.line - 1) + block.text, page, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return printed.getvalue()


def run_line(line: str) -> str:
    if not line.startswith("rnnc "):
        return ""
    if set(line) & set("|>"):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", f"set -eo pipefail; {line}"],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout
    result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.stdout


def filled(text: str, page: str) -> str:
    """The page with what its blocks print, here and now, in place of what it shows."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    parts: list[str] = []
    end = 0
    for block in blocks_of(text):
        if block.kind != "text":
            printed = run_block(block, page, names)
        elif printed is not None:
            parts += [text[end : block.start], printed]
            end = block.start + len(block.text)
            printed = None
    return "".join([*parts, text[end:]])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with mock.patch.dict(os.environ):  # a page may set variables
        now = filled(page.read_text(encoding="utf-8"), str(page))
    # On a difference: `python tests/docs/test_markdown.py` writes the pages anew.
    assert page.read_text(encoding="utf-8") == now


def test_a_wrong_block_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    for text in (
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\n1 / 0\n```\n",
        "```python raises\nprint(1)\n```\n",
        "```bash\nrnnc show nothing\n```\n",
    ):
        page.write_text(text)
        with pytest.raises((AssertionError, ZeroDivisionError, pytest.fail.Exception)):
            test_blocks_run(page, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_make_targets_exist(page: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for block in blocks_of(page.read_text(encoding="utf-8")):
        for target in re.findall(r"^make ([\w-]+)", block.text, re.MULTILINE):
            assert target in targets


def test_the_function_table_is_complete() -> None:
    page = (ROOT / "docs" / "language.md").read_text()
    shown = re.findall(r"`(\w+)\([^`]*\)`", page)
    assert set(TABLE) <= set(shown), set(TABLE) - set(shown)
    for signature in re.findall(r"^\| `(\w+\([^`]*\))` \|", page, re.M):
        name = signature.partition("(")[0]
        # `replace_gradient` is made of two rows; reductions have a table of their own.
        own = name == "replace_gradient" or name in REDUCTIONS
        assert own or signature == TABLE[name].signature


def test_the_table_of_errors_is_complete() -> None:
    table = (ROOT / "docs" / "api.md").read_text().partition("| error | cause |")[2]
    shown = re.findall(r"`(\w+Error)`(?:,| \|)", table)
    public = {name for name in dir(rnnc) if name.endswith("Error")}
    assert set(shown) == public - {"RnncError"}


def test_the_readme_is_a_landing_page() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_readme_and_the_comparison_count_the_cells() -> None:
    assert f" {len(NAMES)} cells come with the package" in (ROOT / "README.md").read_text()
    assert f"| cells | {len(NAMES)}, " in (ROOT / "docs/comparison.md").read_text()


def neurons() -> set[str]:
    page = (ROOT / "docs" / "neurons.md").read_text()
    rows = re.findall(r"^\| (`\w+`.*?) \|", page, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_the_tables_of_cells_are_complete() -> None:
    page = (ROOT / "docs" / "cells.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (\d) \|$", page, re.MULTILINE)
    assert {name for name, _, _ in rows} == set(NAMES) - neurons()
    for name, doc, exchanges in rows:
        cell = rnnc.cells.get(name)
        assert f"{doc}." == cell.doc.splitlines()[0]
        assert int(exchanges) == len(cell.levels.exchanges)


def test_the_table_of_neurons_is_complete() -> None:
    shown = neurons()
    spiking = {name for name in NAMES if "heaviside" in str(rnnc.cells.get(name))}
    assert spiking < shown < set(NAMES)


def test_the_readme_names_every_page() -> None:
    linked = set(re.findall(r"\]\(docs/([^)#]+)", (ROOT / "README.md").read_text()))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_files_exist(page: Path) -> None:
    rooms = "api|benchmarks|cellspec|codegen|constrint|runtime|templates|tests"
    for file in re.findall(rf"`((?:{rooms})/[\w./]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / file).exists(), file


def test_environment_page_is_complete() -> None:
    read = re.compile(r"os\.environ(?:\.get)?[\[(]\s*\"(\w+)\"")
    rooms = ("api", "cellspec", "codegen", "constrint", "runtime")
    files = [f for room in rooms for f in (ROOT / room).rglob("*.py")]
    used = {name for f in files for name in read.findall(f.read_text())}
    page = (ROOT / "docs" / "environment.md").read_text()
    assert used == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


if __name__ == "__main__":
    for path in PAGES:
        with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
            sys.path.insert(0, work)
            path.write_text(filled(path.read_text(), str(path)))
            sys.path.remove(work)
