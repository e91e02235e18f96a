"""The table of rows of several lengths and of resets."""

from __future__ import annotations

from pathlib import Path

from figures import missing, newest, source, table


def ragged(results: Path) -> str:
    """What each contender of each case took, and how many times as fast rnnc is."""
    found = newest(results, "ragged-cuda-*.json")
    if found is None:
        return missing("rnnc bench --ragged")
    lines = ["case|contender|wall-clock, ms|GPU, ms|rnnc is faster"]
    for case in found["cases"]:
        name = case["name"]
        for contender, side in case["sides"].items():
            times = case["times"].get(contender)
            shown = f"{times:.2f} times" if times else ""
            cells = [f"{side['wall']:.3g}", f"{side['device']:.3g}", shown]
            lines.append("|".join([name, contender, *cells]))
            name = ""
        for contender, failure in case["failures"].items():
            lines.append("|".join([name, f"{contender}: did not run ({failure[:60]})", "", "", ""]))
            name = ""
    return f"{table(lines)}\n\n{source(found)}"
