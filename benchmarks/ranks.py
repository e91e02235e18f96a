"""Tokens per second and memory of a language model on several GPUs, against one.

    torchrun --nproc-per-node 2 benchmarks/ranks.py --out ranks.json

All styles train the same model on the same synthetic batches. The file is written after each. It
also has the times of the collectives that docs/distributed.md puts into its formula.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import rnnc
import torch
import torch.distributed as dist
import typer
from rnnc.bench.report import Record
from rnnc.bench.timing import wall
from torch.distributed.device_mesh import DeviceMesh

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from language_model.models import SIZES, Size, count
from language_model.ranks import STYLES, RanksTraining
from language_model.tokens import Tokens
from language_model.training import Settings

WARM_UPS = 2


def main(
    out: Annotated[Path, typer.Option(help="The JSON file.")],
    size: Annotated[str, typer.Option(help=f"One of {', '.join(sorted(SIZES))}.")] = "120m",
    steps: Annotated[int, typer.Option(help="Steps that are timed.")] = 5,
    long: Annotated[int, typer.Option(help="The long context, in two rows.")] = 32_768,
    limit: Annotated[float, typer.Option(help="Seconds until no style begins.")] = 60.0,
) -> None:
    """Measure all styles, and write the file after each."""
    if size not in SIZES:
        raise typer.BadParameter(f"{size!r} is none of {', '.join(sorted(SIZES))}")
    since, device = time.monotonic(), "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(timeout=timedelta(seconds=60))
    mesh = dist.init_device_mesh(device, (dist.get_world_size(),))
    model = SIZES[size]
    command = f"torchrun --nproc-per-node {mesh.size()} benchmarks/ranks.py --size {size}"
    command += f" --steps {steps} --limit {limit:g} --out {out.name}"
    about = {"ranks": mesh.size(), "size": size}
    about |= {"model": {"layers": model.layers, "width": model.width}}
    record, rows = Record(device, command, **about), []
    record.into(out if dist.get_rank() == 0 else None)
    shapes = [(model.context, model.batch), (long, 2)]
    runs = [(style, *shapes[0]) for style in ("one", *STYLES)]
    # As many rows on each GPU as one GPU had before.
    runs += [(style, model.context, mesh.size() * model.batch) for style in ("ddp", "fsdp-kept")]
    runs += [(style, *shapes[1]) for style in ("one", "steps", "heads")]
    record.head["collectives"] = collectives(mesh, model)
    record.write(rows=rows)
    for style, context, batch in runs:
        late = torch.tensor(time.monotonic() - since > limit, dtype=torch.int, device=device)
        dist.all_reduce(late, dist.ReduceOp.MAX)
        if late:
            break
        row = measured(style, mesh, size, context, batch, steps)
        if row is not None:
            rows.append(row)
            print(row, flush=True)
        record.write(rows=rows)
        dist.barrier()
    dist.barrier()
    dist.destroy_process_group()


def measured(
    style: str, mesh: DeviceMesh, name: str, context: int, batch: int, steps: int
) -> dict[str, Any] | None:
    """A row, on the first rank. `one` runs there alone, on all rows and steps."""
    first, device = mesh.get_local_rank() == 0, mesh.device_type
    told: dict[str, Any] = {"style": style, "context": context, "batch": batch}
    if style == "one" and not first:
        return None
    size, settings = SIZES[name], Settings("lstm", name, context, batch, 1_000_000, 1e-4)
    generator = torch.Generator().manual_seed(0)
    shape = (2 * batch * context + 1,)
    drawn = torch.randint(size.vocabulary, shape, generator=generator).to(torch.int16)
    tokens = Tokens(drawn, drawn[: context + 1], size.vocabulary, {})
    own = None if style == "one" else mesh
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    try:
        training = RanksTraining(settings, size, tokens, device, style, own)
        for _ in range(WARM_UPS):
            loss = training.advance()
        begin, warm = training.wait(), training.wait() - begin
        for _ in range(steps):
            loss = training.advance()
        seconds = (training.wait() - begin) / steps
    except torch.OutOfMemoryError as error:
        if style != "one":
            raise  # the others would wait
        return told | {"failure": str(error).splitlines()[0]}
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else None
    told |= {"ms_per_step": 1e3 * seconds, "tokens_per_second": batch * context / seconds}
    told |= {"memory": memory, "warm_up": warm, "loss": float(loss)}
    if style in ("one", "ddp"):
        told["parameters"] = count(training.model)
    if style == "one":
        told["recurrence_ms"] = recurrence(size, context, batch, device)
    return told if first else None


def recurrence(size: Size, context: int, batch: int, device: str) -> dict[str, float]:
    """Milliseconds of forward and backward of one layer: all of it, half its rows or its heads."""
    found = {}
    for name, rows, part in (("whole", 1, 1), ("half the rows", 2, 1), ("half the heads", 1, 2)):
        heads = size.width // 64 // part
        options: dict[str, Any] = {"device": device, "dtype": torch.bfloat16, "batch_first": True}
        rnn = rnnc.RNN(rnnc.cells.lstm, size.width, heads * 64, heads=heads, **options)
        shape = (max(1, batch // rows), context, size.width)
        x = torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=True)

        def run(rnn: rnnc.RNN = rnn, x: torch.Tensor = x) -> None:
            y, _ = rnn(x)
            y.backward(y.detach())

        found[name] = 1e3 * timed(run, 3)
    return found


def collectives(mesh: DeviceMesh, size: Size) -> dict[str, Any]:
    """Milliseconds and gigabytes per second of what the styles exchange."""
    device, ranks = mesh.device_type, mesh.size()
    half = {"device": device, "dtype": torch.bfloat16}
    activations = torch.empty(size.batch * size.context * size.width, **half)
    weights = torch.empty(30_000_000, device=device)
    gathered = torch.empty(ranks * weights.numel(), device=device)
    received, part = torch.empty_like(activations), activations.numel() // ranks
    small, small_received = activations[: 64 * ranks], received[: 64 * ranks]
    runs = {
        "all_reduce": (lambda: dist.all_reduce(weights), 2 * (ranks - 1) / ranks * weights.nbytes),
        "all_gather": (
            lambda: dist.all_gather_into_tensor(gathered, weights),
            (ranks - 1) * weights.nbytes,
        ),
        "all_to_all": (
            lambda: dist.all_to_all_single(received, activations),
            (ranks - 1) * part * activations.element_size(),
        ),
        "small all_to_all": (lambda: dist.all_to_all_single(small_received, small), 0),
    }
    found = {}
    for name, (run, sent) in runs.items():
        seconds = timed(run, 10)
        found[name] = {"ms": 1e3 * seconds, "sent_bytes": sent, "GB_per_s": sent / seconds / 1e9}
    return found


def timed(run: Any, repeats: int) -> float:
    """Seconds of a call, after two of warm-up."""
    for _ in range(2):
        run()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return 1e-3 * wall(lambda: [run() for _ in range(repeats)], device) / repeats


if __name__ == "__main__":
    typer.run(main)
