"""The table of reductions over the units of a head, one row per function."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reduction:
    """One function of the values of all units of a head.

    Attributes:
        name: its name in cells.
        doc: a description in one line.
        eps: what is added to the variance inside the root by default; None for a function without.
        latex: its name in mathematics.
    """

    name: str
    doc: str
    eps: float | None = None
    latex: str = ""

    @property
    def is_norm(self) -> bool:
        """True if it takes several values that are normed together."""
        return self.eps is not None


_ROWS = (
    Reduction("mean", "the mean over the units", latex=r"\operatorname{mean}"),
    Reduction("total", "the sum over the units", latex=r"\operatorname{total}"),
    Reduction("largest", "the largest value of the units", latex=r"\max"),
    Reduction("softmax", "exp(x) over its sum", latex=r"\operatorname{softmax}"),
    Reduction("layer_norm", "mean 0 and variance 1", 1e-5, r"\operatorname{LN}"),
    Reduction("rms_norm", "root of the mean square 1", 1e-6, r"\operatorname{RMS}"),
)
#: All rows by name.
REDUCTIONS: dict[str, Reduction] = {row.name: row for row in _ROWS}
