"""The page of environment variables lists all that the package reads."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("api", "cellspec", "codegen", "constrint", "runtime")


def test_the_page_has_every_variable_that_is_read():
    texts = [path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\bRNNC_[A-Z_]+\b", text)}
    listed = set(
        re.findall(r"^\| `(RNNC_[A-Z_]+)`", (ROOT / "docs/environment.md").read_text(), re.M)
    )
    assert {"RNNC_CACHE_DIR", "RNNC_CACHE_SIZE"} < read
    macros = {"RNNC_BLOCK", "RNNC_INLINE", "RNNC_TO"}  # of the generated C++ and CUDA
    assert listed == read - macros
