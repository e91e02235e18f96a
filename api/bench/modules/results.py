"""The times of a case of modules, and their record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from .cases import Case

OURS, STEPPER = "rnnc", "rnnc, stepper"


@dataclass(frozen=True)
class Side:
    """The times of one contender, in milliseconds; medians.

    Attributes:
        wall: from an idle device until it is idle again, the host's time included.
        device: the GPU's alone, with a full queue; None on a CPU.
        host: until the call returned, with a full queue; None on a CPU.
        runs: the number of timed runs of each.
    """

    wall: float
    device: float | None = None
    host: float | None = None
    runs: int = 0


@dataclass
class ModuleResult:
    """Times of a case.

    Attributes:
        case: the case.
        sides: the times of each contender that ran, by name; those of rnnc begin with its name.
        failures: why one did not run, by name.
    """

    case: Case
    sides: dict[str, Side] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> Side | None:
        """The times of rnnc."""
        return self.sides.get(OURS)

    @property
    def peers(self) -> dict[str, Side]:
        """The times of others: in a user's case torch's, by dtype."""
        return {n: side for n, side in self.sides.items() if not n.startswith(OURS)}

    @property
    def peer(self) -> Side | None:
        """The fastest of the others, from an idle device."""
        return min(self.peers.values(), key=lambda side: side.wall, default=None)

    @property
    def failure(self) -> str:
        """Why rnnc or a peer did not run, or the case was not started."""
        return next(reversed(self.failures.values()), "")

    def times(self, clock: str = "wall", name: str = OURS) -> float | None:
        """Return how many times as fast a contender is as the fastest other by a clock."""
        others = [took for peer in self.peers.values() if (took := getattr(peer, clock))]
        own = getattr(self.sides.get(name), clock, None)
        return min(others) / own if others and own else None

    def faster_than(self, name: str) -> float | None:
        """Return how many times as fast as a contender rnnc is by wall-clock."""
        other = self.sides.get(name)
        return other.wall / self.ours.wall if self.ours and other else None

    def record(self) -> dict[str, Any]:
        """All of it, as JSON writes it."""
        times = {name: self.faster_than(name) for name in self.sides if name != OURS}
        return {"name": str(self.case), **asdict(self), "times": times}

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Self:
        """Return what `record` gave, read from a file.

        Files of users' cases of before 2026-11-28 have sides and a failure by other names.
        """
        sides = record.get("sides")
        if sides is None:
            sides = {OURS: record["ours"], STEPPER: record.get("stepper"), **record["peers"]}
        failures = record.get("failures") or {OURS: record.get("failure")}
        return cls(
            Case(**record["case"]),
            {name: Side(**side) for name, side in sides.items() if side},
            {name: why for name, why in failures.items() if why},
        )
