"""`rnnc.nn` against torch's modules on one thread of this CPU; `rnnc.convert` asks what it shows.

For each kind and size, in turns, the best processor time of some rounds. Ratios are rnnc's time
over torch's.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import rnnc
import torch
from rnnc.bench.report import Record
from smallest import smallest
from torch import nn

PROJECTED = "LSTM to a quarter"
NAMES = ("LSTM", "GRU", "RNN", PROJECTED)
SIZES = (16, 64, 128, 256, 512, 1024)


def pair(name, size):
    """Make torch's module and ours."""
    if name == PROJECTED:
        # Not of `rnnc.nn`, which runs torch's own forward where that is faster.
        return nn.LSTM(size, size, proj_size=size // 4), rnnc.RNN(
            "lstm", size, size, proj_size=size // 4
        )
    theirs, ours = getattr(nn, name)(size, size), getattr(rnnc.nn, name)(size, size)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def measure(name, size, batch, steps, train, budget):
    """Return the best time of torch's module and ours, in milliseconds."""
    x = torch.randn(steps, batch, size)

    def training(module):
        module(x)[0].sum().backward()

    call = training if train else torch.no_grad()(lambda module: module(x))
    runs = {str(place): partial(call, module) for place, module in enumerate(pair(name, size))}
    return list(smallest(runs, budget, 4).values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case")
    parser.add_argument("--modules", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--output", type=Path, help="a folder for the results")
    options = parser.parse_args()
    torch.set_num_threads(1)  # whose time is measured; a backward runs on it too
    record, cases = Record("cpu", f"python {' '.join(sys.argv)}"), []
    for name in options.modules:
        for size in SIZES:
            for batch, steps in ((1, 50), (16, 50)):
                for train in (False, True):
                    torchs, ours = measure(name, size, batch, steps, train, options.seconds)
                    case = {"module": name, "size": size, "B": batch, "T": steps, "train": train}
                    cases.append(case | {"torch_ms": torchs, "rnnc_ms": ours})
                    print(
                        *case.values(), f"{torchs:.3f} {ours:.3f} {ours / torchs:.2f}", flush=True
                    )
    if options.output:
        record.into(options.output / f"cpu-nn-{record.head['date']}.json")
        about = {"torch": torch.__version__, "threads": torch.get_num_threads()}
        record.write(**about, cases=cases)


if __name__ == "__main__":
    main()
