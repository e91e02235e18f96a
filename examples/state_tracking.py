"""State tracking: what recurrent cells learn and models that look back at all tokens do not.

Five tasks, seven models. All train on strings of at most 40 tokens and are validated on 40 to 256:

    pip install "rnnc[plots]"                      # and for all models: transformers xlstm
    python examples/state_tracking.py --out demo           # parity, one seed, models without extras
    python examples/state_tracking.py --full --jobs 3      # everything, on a GPU

Recurrent cells of rnnc and the Transformer are those of parity.py. Mamba is that of transformers
(Apache-2.0), here in plain torch; mLSTM is that of xlstm (Apache-2.0; it installs mlstm_kernels,
under the NXAI Community License, which is not used here). A model whose package is missing is left
out. All models have the same width, strings, optimizer and budget of steps.

Each learning rate of RATES is tried with the first seed where all are wanted (`--full`); the one
with the best accuracy on held-out strings of the trained lengths, over the whole of training, is
taken for the other seeds. Each run leaves a file in the folder `--out`: a command that is cut off
or given `--minutes` goes on where it stopped. A run of other settings is not taken for its own.
"""

import json
import math
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import parity
import rich
import torch
import typer
from parity import LONGEST, PASS, TRAINED, WIDTH, Classifier, Count, sequence_model
from rnnc.bench.report import machine, machine_line
from rnnc.cli.console import print_table
from rnnc.cli.progress import track
from torch import Tensor, nn
from tracking_results import (
    PUBLISHED,
    Results,
    best_rate,
    draw,
    extrapolated,
    summary,
    task_table,
)
from tracking_tasks import TASKS

RATES, USUAL_RATE = (3e-4, 1e-3, 3e-3), parity.LEARNING_RATE


class Mamba(nn.Module):
    """Two layers of transformers' Mamba; called like an RNN."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import MambaConfig, MambaModel

        self.model = MambaModel(
            MambaConfig(vocab_size=1, hidden_size=WIDTH, num_hidden_layers=2, use_cache=False)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Run over (B, T, WIDTH)."""
        return self.model(inputs_embeds=x).last_hidden_state, None


class MLSTM(nn.Module):
    """Two blocks of xlstm's mLSTM; called like an RNN."""

    def __init__(self) -> None:
        super().__init__()
        from xlstm import (
            mLSTMBlockConfig,
            mLSTMLayerConfig,
            xLSTMBlockStack,
            xLSTMBlockStackConfig,
        )

        block = mLSTMBlockConfig(mlstm=mLSTMLayerConfig(num_heads=4))
        sizes = {"context_length": LONGEST, "num_blocks": 2, "embedding_dim": WIDTH}
        self.model = xLSTMBlockStack(xLSTMBlockStackConfig(mlstm_block=block, **sizes))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Run over (B, T, WIDTH)."""
        return self.model(x), None


EXTRAS = {"mamba": (Mamba, "transformers"), "mlstm": (MLSTM, "xlstm")}
MODELS = ("elman", "gru", "lstm", "slstm", "transformer", *EXTRAS)


def body(name: str) -> nn.Module:
    """The model of a name over (B, T, WIDTH)."""
    return EXTRAS[name][0]() if name in EXTRAS else sequence_model(name)


def available(name: str) -> bool:
    """Whether a model can be built; says what to install where it cannot."""
    try:
        body(name)
    except ImportError as error:
        rich.print(f"{name} is left out: {error}; pip install {EXTRAS[name][1]}")
        return False
    return True


@dataclass(frozen=True)
class Run:
    """One training: what it is of, and the file that it leaves."""

    task: str
    model: str
    rate: float
    seed: int
    steps: int

    def file(self, folder: Path) -> Path:
        """Where its result lies."""
        name = f"{self.task}-{self.model}-{self.rate:g}-{self.seed}-{self.steps}.json"
        return folder / "runs" / name


def train(run: Run, folder: Path, threads: int = 1, quiet: bool = True) -> Path:
    """Train one model on one task, and write what came of it."""
    torch.set_num_threads(threads)
    task, start = TASKS[run.task], time.perf_counter()

    def build(name: str) -> nn.Module:
        return Classifier(body(name), task.tokens, task.classes)

    curve, by_length = parity.train(
        run.model, run.steps, run.seed, build, task.strings, run.rate, quiet
    )
    answers = [None if math.isnan(a) else round(a, 5) for a in by_length.tolist()]
    found = {"curve": curve, "by_length": answers, "seconds": time.perf_counter() - start}
    file = run.file(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(vars(run) | found) + "\n", "utf-8")
    unfinished.rename(file)
    return file


def train_before(until: float, run: Run, folder: Path, threads: int) -> None:
    """Train a model, unless it is too late to start."""
    if time.monotonic() < until:
        train(run, folder, threads)


def train_all(
    what: str, runs: list[Run], folder: Path, jobs: int, threads: int, until: float
) -> None:
    """Train what has no file yet, in processes beside each other; the slowest models first."""
    left = [run for run in runs if not run.file(folder).exists()]
    left.sort(key=lambda run: MODELS.index(run.model), reverse=True)
    if jobs == 1 or not left:
        for run in track(left, what, disable=not left):
            train_before(until, run, folder, threads)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(train_before, until, run, folder, threads) for run in left]
        for done in track(as_completed(waiting), what, total=len(waiting)):
            done.result()


def read(run: Run, folder: Path) -> dict[str, Any] | None:
    """What a run left; None if it was not made."""
    file = run.file(folder)
    return json.loads(file.read_text("utf-8")) if file.exists() else None


def collect(
    tasks: list[str],
    models: list[str],
    steps: int,
    seeds: int,
    rates: tuple[float, ...],
    **how: Any,
) -> Results:
    """Train what is missing, and give the runs that there are: by task, by model, of all seeds."""
    folder: Path = how["folder"]
    both = [(task, model) for task in tasks for model in models]
    trials = {pair: [Run(*pair, rate, 0, steps) for rate in rates] for pair in both}
    train_all("one seed", [run for runs in trials.values() for run in runs], **how)
    chosen = []
    for pair, runs in trials.items():
        tried = [run for run in (read(run, folder) for run in runs) if run]
        if len(tried) == len(rates):
            chosen += [Run(*pair, best_rate(tried), seed, steps) for seed in range(seeds)]
    train_all("all seeds", chosen, **how)
    results: Results = {}
    for run in chosen:
        if kept := read(run, folder):
            results.setdefault(run.task, {}).setdefault(run.model, []).append(kept)
    return results


def main(
    tasks: Annotated[str, typer.Option(help="with commas between them")] = "parity",
    models: Annotated[str, typer.Option(help="with commas between them")] = ",".join(MODELS[:5]),
    full: Annotated[bool, typer.Option(help="all tasks, models, rates and three seeds")] = False,
    steps: Count = 3000,
    seeds: Count = 1,
    jobs: Annotated[int, typer.Option(min=1, help="processes beside each other")] = 1,
    threads: Count = 1,
    minutes: Annotated[float, typer.Option(help="no run starts after so long")] = math.inf,
    out: Path = Path("demo"),
) -> None:
    """Train models on short strings, at most STEPS steps per run; validate on long ones."""
    wanted = [*TASKS] if full else tasks.split(",")
    for given, known in ((wanted, TASKS), (models.split(","), MODELS)):
        if unknown := [name for name in given if name not in known]:
            raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    used = [m for m in (MODELS if full else models.split(",")) if available(m)]
    rates, seeds = (RATES, max(seeds, 3)) if full else ((USUAL_RATE,), seeds)
    until = time.monotonic() + 60 * minutes
    how = {"folder": out, "jobs": jobs, "threads": threads, "until": until}
    results = collect(wanted, used, steps, seeds, rates, **how)
    told = {
        task: {model: summary(runs) for model, runs in found.items()}
        for task, found in results.items()
    }
    for task, models_of_task in told.items():
        print_table(task_table(task, models_of_task))
    count = {task: sum(map(len, found.values())) for task, found in results.items()}
    if missing := [task for task in wanted if count.get(task, 0) < len(used) * seeds]:
        rich.print(f"unfinished: {', '.join(missing)}; the same command goes on")
    on = machine(parity.DEVICE)
    record = {"date": str(date.today()), "machine": on, "steps": steps, "published": PUBLISHED}
    record["command"] = shlex.join(["python", "examples/state_tracking.py", *sys.argv[1:]])
    record["results"] = told
    out.mkdir(parents=True, exist_ok=True)
    (out / "state_tracking.json").write_text(json.dumps(record) + "\n", "utf-8")
    if results:
        draw(results, out / "state_tracking.png")
    rich.print(machine_line(on), f"Tables and picture are in {out}.", sep="\n")
    cells = [model for model in results.get("parity", {}) if model in parity.CELLS]
    failed = [m for m in cells if min(map(extrapolated, results["parity"][m])) < PASS]
    if failed:
        rich.print(f"[red]parity: below {PASS} on {TRAINED} to {LONGEST}: {', '.join(failed)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
