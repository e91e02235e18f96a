"""Remarks of the page on a text that was ended."""

from __future__ import annotations

from typing import Any

from .question import Remark

MEMORY = "1 GiB of memory"
UNDER_MAIN = 'what calls the cell below `if __name__ == "__main__":`, which the page does not run'


def out_of_time(line: int) -> Remark:
    """The remark on a text that did not end in time.

    Args:
        line: that ran, or 0.
    """
    return Remark("stopped: it did not end in time", "a text that runs in 2 s", UNDER_MAIN, line)


def remark_of(end: dict[str, Any]) -> Remark | None:
    """Why a text was ended, or None if it ran to its end.

    Args:
        end: the last line of an answer.
    """
    line, status = end["line"], end["status"]
    if end["end"] == "time":
        return out_of_time(line)
    if end["end"] == "printed":
        return Remark("stopped: it printed more than 1 MB", "a text that prints less", "less print")
    if end["end"] == "answered":
        return Remark("stopped: more than 16 MB of generated code", "a smaller cell", "fewer gates")
    if end["end"] == "ended":
        what = f"signal {-status}" if status < 0 else f"exit code {status}"
        return Remark(f"the text ended its process ({what})", "a text that runs to its end", "")
    if end["end"] == "died":
        return Remark("the text ended the process that runs texts", "a text that ends itself", "")
    return None
