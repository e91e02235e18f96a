"""Networks of other packages before and after `rnnc.convert`: times, and how far results differ.

    python benchmarks/peers/times.py --device cuda --output benchmarks/results

Packages are those of `make test-peers`. A package that cannot be imported is left out, and a line
says why. A run is a training step without its optimizer, or a call where it has no gradient. Both
sides run in turns. "differ by" is relative to the largest number of an output or gradient.

On a GPU a time is from an idle device to the end, the median of the runs. On a CPU it is processor
time of one thread, the smallest, since other programs can only lengthen it.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import rich
import rnnc
import torch
import typer
from networks import NETWORKS, Call, Network
from rich.table import Table
from rnnc.bench.report import Record, machine_line
from rnnc.bench.timing import own_time, wall
from rnnc.bench.turns import in_turns
from torch import Tensor, nn

Named = dict[str, Tensor]


def run(model: nn.Module, call: Call) -> tuple[Named, Named]:
    """The outputs, and the gradients of the parameters, by name."""
    model.zero_grad(set_to_none=True)
    outputs = call(model)
    learned = [output.square().mean() for output in outputs.values() if output.requires_grad]
    if learned:
        torch.stack(learned).sum().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {name: output.detach() for name, output in outputs.items()}, gradients


def differences(before: Named, after: Named) -> float:
    """The largest difference of a tensor over that tensor's largest number."""
    return max(
        ((after[name] - tensor).abs().max() / tensor.abs().max().clamp_min(1e-12)).item()
        for name, tensor in before.items()
    )


def compare(network: Network, device: str, budget: float, force: bool) -> dict[str, object]:
    """Time a network with torch's modules and with ours."""
    torch.manual_seed(0)
    model, call = network.build(*network.sizes)
    theirs, ours = model.to(device), copy.deepcopy(model).to(device)
    report = rnnc.convert(ours, force=force)
    results = zip(run(theirs, call), run(ours, call), strict=True)
    apart = [differences(before, after) if before else None for before, after in results]
    clock = partial(wall, device=device) if device == "cuda" else own_time
    sides = zip(("torch", "rnnc"), (theirs, ours), strict=True)
    clocks = {side: partial(clock, partial(run, each, call)) for side, each in sides}
    in_turns(clocks, 3)  # what is compiled, loaded or recorded
    times = in_turns(clocks, 1_000_000, time.monotonic() + budget)
    milliseconds = {
        side: {"median": statistics.median(took), "fastest": min(took)}
        for side, took in times.items()
    }
    counts = {"replaced": len(report.replaced), "left": len(report.left)}
    errors = dict(zip(("outputs", "gradients"), apart, strict=True))
    sizes = dict(zip(("hidden", "batch", "steps"), network.sizes, strict=True))
    return sizes | counts | {"difference": errors, "ms": milliseconds}


def main(
    device: str = "cuda" if torch.cuda.is_available() else "cpu",
    budget: Annotated[float, typer.Option("--seconds", help="for each network")] = 3.0,
    only: str = "",
    force: Annotated[bool, typer.Option(help="convert modules for which torch is faster")] = False,
    output: Annotated[Path | None, typer.Option(help="a folder for the results")] = None,
) -> None:
    """Time networks of other packages before and after their conversion."""
    torch.set_num_threads(1)  # whose time is measured; a backward runs on it too
    record = Record(device, f"python {' '.join(sys.argv)}", force=force)
    which = "median" if device == "cuda" else "fastest"
    rich.print(machine_line(record.machine))
    table = Table("network", "converted", "torch ms", "rnnc ms", "faster", "differ by")
    found = {}
    for name, network in NETWORKS.items():
        if only not in name:
            continue
        try:
            found[name] = one = compare(network, device, budget, force)
        except ImportError as error:
            rich.print(f"{name}: left out, {error}")
            continue
        torchs, ours = (one["ms"][side][which] for side in ("torch", "rnnc"))
        words = f"{torchs:.2f}", f"{ours:.2f}", f"{torchs / ours:.2f}"
        counts = f"{one['replaced']} of {one['replaced'] + one['left']}"
        worst = max(each for each in one["difference"].values() if each is not None)
        table.add_row(name, counts, *words, f"{worst:.0e}")
    rich.print(table)
    kind = "cpu" if device == "cpu" else torch.cuda.get_device_name().split()[-1].lower()
    record.into(output and output / f"peers-{kind}-{record.head['date']}.json")
    record.write(networks=found)


if __name__ == "__main__":
    typer.run(main)
