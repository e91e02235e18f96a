"""Finds the tests' browser; run as a program, it says what is missing and what installs it."""

from __future__ import annotations

import importlib.util
import shutil
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str | None:
    """The path of Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> list[str]:
    """What the tests need and this machine lacks, each with the command that installs it."""
    found = []
    if executable() is None:
        found.append(
            "Chromium: apt-get install chromium (Debian), or another of " + ", ".join(NAMES)
        )
    if importlib.util.find_spec("playwright") is None:
        found.append("playwright: pip install -r tests/web/requirements.txt -c constraints.txt")
    return found


if __name__ == "__main__":
    for line in missing():
        print(f"make test-web needs {line}", file=sys.stderr)
    sys.exit(1 if missing() else 0)
