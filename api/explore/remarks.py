"""What the page says of a text that was ended."""

from __future__ import annotations

from typing import Any

from .question import Remark

_UNDER_MAIN = 'what calls the cell under `if __name__ == "__main__":`, or out of the text'


def remark_of(end: dict[str, Any], seconds: float) -> Remark | None:
    """Why a text was ended, or None if it ran to its end.

    Args:
        end: the last line of an answer.
        seconds: that a text may run.
    """
    line, status = end["line"], end["status"]
    if end["end"] == "time":
        if not line:
            return Remark(
                "stopped: no answer in time", f"a text that runs in {seconds:g} s", _UNDER_MAIN
            )
        return Remark(f"stopped after {seconds:g} s", "a text that ends", _UNDER_MAIN, line)
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
