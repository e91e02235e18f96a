"""The table of rows of several lengths and of resets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from figures import missing, newest, source, table


def ragged(results: Path) -> str:
    """What each contender of each case took, and how many times as fast rnnc is: GPU, then CPU."""
    files = [newest(results, f"ragged-{device}-*.json") for device in ("cuda", "cpu")]
    return "\n\n".join(_one(found) for found in files if found) or missing("rnnc bench --ragged")


def _one(found: dict[str, Any]) -> str:
    """The table of one file."""
    lines = ["case|contender|wall-clock, ms|GPU, ms|rnnc is faster"]
    for case in found["cases"]:
        name = case["name"]
        for contender, side in case["sides"].items():
            times, queued = case["times"].get(contender), side["device"]
            shown = f"{times:.2f} times" if times else ""
            cells = [f"{side['wall']:.3g}", f"{queued:.3g}" if queued else "-", shown]
            lines.append("|".join([name, contender, *cells]))
            name = ""
        for contender, failure in case["failures"].items():
            lines.append("|".join([name, f"{contender}: did not run ({failure[:60]})", "", "", ""]))
            name = ""
    return f"{table(lines)}\n\n{source(found)}"
