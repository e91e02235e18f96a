"""What several GPUs should reach, by the formula of docs/distributed.md over measured costs.

    python benchmarks/ranks_plan.py benchmarks/results/ranks-h200-DATE.json

It puts the costs that benchmarks/ranks.py measured into the formula, sets the result for as many
GPUs beside what was measured there, and goes on to 8 and 256 GPUs.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HALF, SINGLE = 2, 4  # bytes of an element of bfloat16 and of float32
GATES = 4
NODE = 8  # GPUs of a node
NVLINK = 450e9  # bytes/s in one direction per GPU: NVIDIA, H200 data sheet, 900 GB/s in both
INFINIBAND = 50e9  # bytes/s per GPU: NVIDIA, DGX H100 user guide, a ConnectX-7 of 400 Gb/s for each
MEMORY = 4.0e12  # bytes/s that an H200 copies: docs/notebook.md
ADAM_BYTES = 28  # per parameter: four tensors read and three written
BACKWARD = 2 / 3  # its share of the time of a step


@dataclass(frozen=True)
class Costs:
    """What one GPU takes for the whole batch, and what collectives reach.

    Attributes:
        params: of the model.
        layers: recurrent ones.
        width: of the model, and of its recurrent layers.
        tokens: of a batch, B · T.
        rest: seconds of a step outside of the recurrent layers and the optimizer.
        whole: seconds of forward and backward of a recurrent layer.
        half_rows: the same for half of the rows.
        half_heads: the same for half of the heads.
        rates: bytes/s that a GPU sends, by collective.
        latency: seconds of a small collective.
    """

    params: int
    layers: int
    width: int
    tokens: int
    rest: float
    whole: float
    half_rows: float
    half_heads: float
    rates: dict[str, float]
    latency: float

    @property
    def adam(self) -> float:
        """Seconds of the optimizer on all parameters."""
        return ADAM_BYTES * self.params / MEMORY

    def layer(self, half: float, parts: float) -> float:
        """Seconds of a recurrent layer of which a GPU has a part.

        One share of its time does not depend on the size of the part: the latency of the steps.
        """
        fixed = max(0.0, 2 * half - self.whole)
        return fixed + (self.whole - fixed) / parts

    def sent(self, kind: str, size: float) -> float:
        """Seconds of a collective in which each GPU of a node sends so many bytes."""
        return self.latency + size / self.rates[kind]


def costs_of(told: dict[str, Any], context: int) -> Costs:
    """The costs in a file of benchmarks/ranks.py, for a context."""
    rows = {(row["style"], row["context"]): row for row in told["rows"]}
    one, model = rows["one", context], told["model"]
    recurrent = [
        one["recurrence_ms"][n] / 1e3 for n in ("whole", "half the rows", "half the heads")
    ]
    found = told["collectives"]
    rates = {name: found[name]["GB_per_s"] * 1e9 for name in found if "small" not in name}
    adam = ADAM_BYTES * one["parameters"] / MEMORY
    rest = one["ms_per_step"] / 1e3 - model["layers"] * recurrent[0] - adam
    tokens = one["batch"] * context
    latency = found["small all_to_all"]["ms"] / 1e3
    sizes = one["parameters"], model["layers"], model["width"], tokens
    return Costs(*sizes, rest, *recurrent, rates, latency)


def data_parallel(costs: Costs, gpus: int, batches: int) -> float:
    """Seconds of a step under DDP, of so many batches as one GPU was measured with."""
    share = gpus / batches  # GPUs per batch
    compute = costs.rest / share + costs.layers * costs.layer(costs.half_rows, share) + costs.adam
    exchange = _reduced(costs, "all_reduce", 2 * SINGLE * costs.params, gpus)
    return compute + max(0.0, exchange - BACKWARD * compute)


def fully_sharded(costs: Costs, gpus: int, batches: int, gathers: int = 2) -> float:
    """The same under FSDP2: weights gathered in bfloat16 twice, gradients scattered in float32."""
    share = gpus / batches
    compute = (
        costs.rest / share + costs.layers * costs.layer(costs.half_rows, share) + costs.adam / gpus
    )
    gathered = _reduced(costs, "all_gather", gathers * HALF * costs.params, gpus)
    scattered = _reduced(costs, "all_reduce", SINGLE * costs.params, gpus)
    exposed = max(0.0, gathered + scattered - compute)
    return compute + exposed + (gathered + scattered) / (2 * costs.layers)


def sharded_and_kept(costs: Costs, gpus: int, batches: int) -> float:
    """The same with weights that stay gathered from the forward to the backward."""
    return fully_sharded(costs, gpus, batches, gathers=1)


def headwise(costs: Costs, gpus: int, batches: int) -> float:
    """The same under `HeadwiseParallel` in a node, and copies of it on the other nodes."""
    ranks, copies = min(gpus, NODE), max(1, gpus // NODE)
    times = batches / copies
    size = HALF * costs.tokens * costs.width * times
    gather = costs.sent("all_gather", size * (ranks - 1) / ranks)
    summed = costs.sent("all_reduce", 2 * size * (ranks - 1) / ranks)
    layer = costs.layer(costs.half_heads, ranks / times) + gather + summed
    return costs.rest * times + costs.layers * layer + costs.adam + _between(costs, copies)


def sequence(costs: Costs, gpus: int, batches: int) -> float:
    """The same under `SequenceParallel` in a node, and copies of it on the other nodes."""
    ranks, copies = min(gpus, NODE), max(1, gpus // NODE)
    times = batches / copies
    part = HALF * costs.tokens * costs.width * times / ranks
    moved = 2 * (GATES + 1) * part  # of the inputs' products and of the output, there and back
    exchange = 3 * costs.latency + costs.sent("all_to_all", moved * (ranks - 1) / ranks)
    copied = 4 * moved / MEMORY  # put in order ahead of each exchange, and behind it
    weights = HALF * GATES * costs.width**2 * (ranks - 1) / ranks
    weight = 2 * costs.sent("all_gather", weights)
    layer = costs.layer(costs.half_heads, ranks / times) + exchange + copied + weight
    others = costs.params - costs.layers * (2 * GATES) * costs.width * 64  # but matrices of heads
    summed = _reduced(costs, "all_reduce", 2 * SINGLE * others, ranks)
    compute = costs.rest * times / ranks + costs.layers * layer + costs.adam
    return compute + summed + _between(costs, copies)


STYLES = {
    "ddp": data_parallel,
    "fsdp": fully_sharded,
    "fsdp-kept": sharded_and_kept,
    "heads": headwise,
    "steps": sequence,
}


def _reduced(costs: Costs, kind: str, size: float, gpus: int) -> float:
    """Seconds of a collective on so many bytes: inside of nodes, then between them."""
    inside, nodes = min(gpus, NODE), max(1, gpus // NODE)
    found = costs.sent(kind, size * (inside - 1) / inside)
    if nodes > 1:
        rate = INFINIBAND * min(1.0, costs.rates[kind] / NVLINK)
        found += costs.latency + size / inside * (nodes - 1) / nodes / rate
    return found


def _between(costs: Costs, copies: int) -> float:
    """Seconds by which the sum of gradients over copies on other nodes exceeds the backward."""
    if copies == 1:
        return 0.0
    rate = INFINIBAND * min(1.0, costs.rates["all_reduce"] / NVLINK)
    size = 2 * SINGLE * costs.params / NODE * (copies - 1) / copies
    return costs.latency + size / rate


def lines_of(told: dict[str, Any], context: int) -> list[str]:
    """The lines of a context: measured, by the formula, and the plan for more GPUs."""
    costs, ranks = costs_of(told, context), told["ranks"]
    one = next(r for r in told["rows"] if r["context"] == context and r["style"] == "one")
    rows = {
        (row["style"], row["batch"] // one["batch"]): row
        for row in told["rows"]
        if row["context"] == context
    }
    lines = [
        f"style|{ranks} GPUs, tokens/s|times one GPU|by the formula|memory, GB|8 GPUs, planned|256",
        f"one GPU|{one['tokens_per_second'] / 1e3:.0f} k|1||{one['memory'] / 1e9:.1f}||",
    ]
    for style, seconds in STYLES.items():
        plan = [f"{costs.tokens * n / seconds(costs, n, n) / 1e6:.1f} M" for n in (8, 256)]
        # The batch of one GPU, and as many rows on each GPU as one had.
        for batches in (1, ranks):
            row = rows.get((style, batches))
            if row is None and batches > 1:
                continue
            rate = costs.tokens * batches / seconds(costs, ranks, batches)
            by_formula = f"{rate / one['tokens_per_second']:.2f}"
            found = ["not measured", "", by_formula, ""]
            if row is not None:
                times = row["tokens_per_second"] / one["tokens_per_second"]
                measured = f"{row['tokens_per_second'] / 1e3:.0f} k"
                found = [measured, f"{times:.2f}", by_formula, f"{row['memory'] / 1e9:.1f}"]
            name = style if batches == 1 else f"{style}, {row['batch']} rows"
            lines.append("|".join([name, *found, *(plan if batches == 1 else ("", ""))]))
    return lines


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    for steps in sorted({row["context"] for row in given["rows"]}):
        print(f"\nContext {steps}:", *lines_of(given, steps), sep="\n")
