"""The cases of `rnnc bench --scans`: recurrences that memory alone should limit."""

from __future__ import annotations

from dataclasses import dataclass

from ..contenders.kinds import Kind
from ..contenders.ours import RESETS
from ..modules.cases import among
from ..rows import Row

#: What runs a case without R by rnnc: kinds of plans.
VARIANTS = ("walk", "scan", "auto")


@dataclass(frozen=True)
class ScanCase:
    """A call of `rnnc.scan`, and who takes part in it.

    Attributes:
        row: the cell and the sizes.
        ways: what runs it by rnnc: words of `variant`, or "reference".
        peers: kinds of other contenders.
        resets: the share of all steps at which a row starts anew.

    Example:
        >>> from rnnc.bench.rows import Row
        >>> from rnnc.bench.scans.cases import ScanCase
        >>> print(ScanCase(Row("mingru", 12, 64), resets=0.01))
        mingru, 12 x 64, batch 16, 1024 steps, 1 % resets
    """

    row: Row
    ways: tuple[str, ...] = VARIANTS
    peers: tuple[Kind, ...] = ("fla", "accelerated-scan")
    resets: float = 0.0

    def __str__(self) -> str:
        return f"{self.row}, {100 * self.resets:g} % resets" if self.resets else str(self.row)


def scan_cases(words: str | None = None) -> tuple[ScanCase, ...]:
    """The cases that a word of the command line names.

    Args:
        words: a part of their names, or their numbers as in "1-3"; None for all.

    Raises:
        BenchError: there is no such case.

    Example:
        >>> from rnnc.bench.scans.cases import scan_cases
        >>> [case.row.steps for case in scan_cases("hgrn")]
        [16384, 16384, 65536, 131072, 131072]
    """
    return among(_CASES, words, "hgrn")


def _case(cell: str, batch: int, steps: int, heads: int, dim: int, *more: Kind) -> ScanCase:
    case = ScanCase(Row(cell, heads, dim, batch, steps))
    return ScanCase(case.row, peers=(*case.peers, *more))


def _with_resets(case: ScanCase, *ways: str) -> ScanCase:
    return ScanCase(case.row, ways or ("auto",), peers=(), resets=RESETS)


_LONG, _HIGHWAY = _case("hgrn", 16, 16384, 4, 128), Row("mingru_highway", 1, 128, 512, 64)
_MINLSTM, _RG_LRU = _case("minlstm", 16, 1024, 12, 64), _case("rg_lru", 4, 8192, 1, 2560)
_ONE_ROW = _case("hgrn", 1, 131072, 1, 256)
_CASES: tuple[ScanCase, ...] = (
    _LONG,
    _with_resets(_LONG, *VARIANTS),
    _case("hgrn", 1, 65536, 4, 512),
    _case("mingru", 16, 1024, 12, 64),
    _MINLSTM,
    _with_resets(_MINLSTM),
    ScanCase(_HIGHWAY, peers=()),
    _with_resets(ScanCase(_HIGHWAY), *VARIANTS),
    _case("qrnn", 64, 1024, 1, 1024),
    _case("indrnn", 16, 1024, 1, 768, "haste"),
    _case("lru", 16, 16384, 1, 512),
    _RG_LRU,
    _with_resets(_RG_LRU),
    _ONE_ROW,
    _with_resets(_ONE_ROW),
)
