"""Times the contenders of a ragged case in turns."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from ..time_limit import TooLong, within
from ..timing import free, warm_up
from ..users.measure import Side, in_a_line, in_turns
from .cases import RaggedCase
from .contenders import Run, contenders
from .inputs import ragged_inputs

_WARM_UPS = 4


@dataclass
class RaggedResult:
    """What a case took.

    Attributes:
        case: the case.
        sides: the times of each contender under its name; "rnnc" is ours.
        failures: the reason under the name of each contender that did not run.
    """

    case: RaggedCase
    sides: dict[str, Side] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def times(self, name: str) -> float | None:
        """How many times as fast as a contender rnnc is by wall-clock.

        Args:
            name: of the contender.
        """
        ours, other = self.sides.get("rnnc"), self.sides.get(name)
        return other.wall / ours.wall if ours and other else None

    def record(self) -> dict[str, Any]:
        """All of it, as JSON writes it."""
        times = {name: self.times(name) for name in self.sides if name != "rnnc"}
        return {"name": str(self.case), **asdict(self), "times": times}


def measure_ragged(
    case: RaggedCase, device: str, repeat: int, seconds: float, ready: float = math.inf
) -> RaggedResult:
    """Time a forward and its backward of all contenders of a case.

    Args:
        case: the case.
        device: "cpu" or "cuda".
        repeat: timed runs of each.
        seconds: after which each has the fewest runs.
        ready: seconds in which a contender must be compiled and warm.
    """
    found, runs, ahead = RaggedResult(case), dict[str, Run](), dict[str, float]()
    for name, make in contenders(case, ragged_inputs(case, device)):
        try:
            with within(ready):
                runs[name] = make()
                ahead[name] = warm_up(runs[name], device, _WARM_UPS).ahead
        except TooLong:
            runs.pop(name, None)
            found.failures[name] = f"it was not compiled within {ready:.0f} s"
        except Exception as error:
            # Any error is a line of the table, and the others go on.
            runs.pop(name, None)
            found.failures[name] = in_a_line(error)
    until = time.monotonic() + seconds
    found.sides = in_turns(runs, device, ahead, repeat, until, shuffled=True)
    runs.clear()
    free(device)
    return found
