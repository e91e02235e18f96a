"""`rnnc.nn` against torch's modules on one thread of this CPU; `rnnc.convert` asks what it shows.

For each kind and size, in turns, the best processor time of some rounds. Ratios are rnnc's time
over torch's.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import date
from pathlib import Path

import rnnc
import torch
from torch import nn

PROJECTED = "LSTM to a quarter"
NAMES = ("LSTM", "GRU", "RNN", PROJECTED)
SIZES = (16, 64, 128, 256, 512, 1024)


def seconds(module, x, train):
    start = time.thread_time()
    if train:
        module(x)[0].sum().backward()
    else:
        with torch.no_grad():
            module(x)
    return time.thread_time() - start


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
    theirs, ours = pair(name, size)
    x = torch.randn(steps, batch, size)
    best, end, rounds = [float("inf")] * 2, time.perf_counter() + budget, 0
    while rounds < 6 or time.perf_counter() < end:
        for place, module in enumerate((theirs, ours)):
            best[place] = min(best[place], seconds(module, x, train)) if rounds > 1 else best[place]
        rounds += 1
    return [1e3 * value for value in best]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case")
    parser.add_argument("--modules", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--output", type=Path, help="a folder for the results")
    options = parser.parse_args()
    torch.set_num_threads(1)  # whose time is measured; a backward runs on it too
    cases = []
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
        about = {"torch": torch.__version__, "threads": torch.get_num_threads()}
        about |= {"machine": platform.processor() or platform.machine(), "cases": cases}
        file = options.output / f"cpu-nn-{date.today()}.json"
        file.write_text(json.dumps(about, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
