"""Imports of calls after the first of their kind, in a process of its own.

`python later_calls.py DEVICE` takes "simulated", a GPU whose driver only takes notes, or "cuda". It
prints the modules that a later call imports, one per line, after the kind of the call.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import rnnc
import torch

# Calls: the one that is known, the one that is recorded, and replays.
LATER = 5


class Patch:
    """The part of `MonkeyPatch` that the simulated GPU needs: pytest would import much itself."""

    def setattr(self, of: Any, name: str, value: Any, raising: bool = True) -> None:
        setattr(of, name, value)

    def setitem(self, of: dict[str, Any], name: str, value: Any) -> None:
        of[name] = value


def kinds(device: str, backend: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield calls by the name of their kind."""

    def module(**options: Any) -> rnnc.RNN:
        made = rnnc.RNN(rnnc.cells.lstm, 8, 32, num_layers=2, backend=backend, **options)
        return made.to(device)

    x, row = torch.randn(16, 3, 8, device=device), torch.randn(3, 8, device=device)
    lengths = torch.tensor([16, 9, 4], device=device)
    rnn, both = module(), module(bidirectional=True, dropout=0.1)

    def quiet(call: Callable[[], object]) -> Callable[[], object]:
        return torch.no_grad()(call)

    def trained(of: rnnc.RNN, **given: Any) -> Callable[[], object]:
        return lambda: of(x, **given)[0].sum().backward()

    yield "forward", quiet(lambda: rnn(x))
    yield "backward", trained(rnn)
    yield "step", quiet(lambda: rnn.step(row))
    yield "step backward", lambda: rnn.step(row)[0].sum().backward()
    yield "lengths", quiet(lambda: rnn(x, lengths=lengths))
    yield "lengths backward", trained(rnn, lengths=lengths)
    yield "both directions", quiet(lambda: both(x))
    yield "both directions backward", trained(both)
    stepper = rnn.stepper(3)
    yield "stepper", lambda: stepper(row)


def simulated() -> Any:
    """The simulated GPU, which counts as the current device."""
    path = Path(__file__).parents[1] / "simulated_gpu.py"
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    room = importlib.util.module_from_spec(found)
    found.loader.exec_module(room)
    return room


def report(device: str, backend: str) -> None:
    """Make each call some times, and print what the later ones import."""
    for kind, call in kinds(device, backend):
        call()
        before = set(sys.modules)
        for _ in range(LATER):
            call()
        for name in sorted(set(sys.modules) - before):
            print(kind, name)


def main() -> None:
    """Report, on the device that the command line names."""
    if sys.argv[1] == "cuda":
        report("cuda", "cuda")
        return
    room = simulated()
    with room.simulated(Patch()):
        room.queues.is_here = lambda _: True
        report("cpu", "simulated")


if __name__ == "__main__":
    main()
