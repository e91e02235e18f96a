"""Writes the pages of the site into build/docs, from which mkdocs builds build/site.

    python docs/site/prepare.py

The pages of docs/ come with links that hold there. Three parts are generated: the gallery of the
cells, the notebooks with their outputs, and the reference of the public names. An example or a
notebook that fails ends the build. The same commit gives the same files.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Pictures of notebooks and pages carry no date, and ids that depend on their data alone.
os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
os.environ["OMP_NUM_THREADS"] = "1"
# The CPU kernels of notebooks are compiled by fewer flags: values stay, and the build is shorter.
os.environ.setdefault("RNNC_QUICK_COMPILE", "1")

import gallery
import notebooks
import pages
import reference

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "docs"


def main() -> None:
    """Write all pages, and say how long each part took."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    _write("pages", pages.write)
    _write("reference", reference.write)
    # A notebook runs in one process, so the reports take the rest of the processor meanwhile.
    with ThreadPoolExecutor(1) as pool:
        executed = pool.submit(_write, "notebooks", notebooks.write)
        _write("gallery", gallery.write)
        executed.result()


def _write(name: str, write: Callable[[Path], None]) -> None:
    start = time.monotonic()
    write(OUTPUT)
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
