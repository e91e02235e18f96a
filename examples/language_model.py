"""Language models beside a Transformer: cells of rnnc, and torch's LSTM, in the same blocks.

The text is that of the Python packages of this machine, or of a folder:

    pip install "rnnc[plots]" tokenizers
    python examples/language_model.py train --model slstm --size tiny
    python examples/language_model.py train --model slstm --size tiny --data my_texts

On a GPU, the comparison, in commands of at most nine minutes each:

    python examples/language_model.py tune
    python examples/language_model.py compare --by tokens
    python examples/language_model.py compare --by time
    python examples/language_model.py speed
    python examples/language_model.py report

On several GPUs: `torchrun --nproc-per-node 2 examples/language_model.py ranks --style fsdp`.

The folder `--out` gets tables, pictures and JSON. The folder `--work` gets the tokens and the
checkpoints, from which an interrupted run goes on, bit for bit. docs/language_model.md says more.
"""

import json
import os
import time
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

# Threads that wait by spinning slow each other down when other programs use the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import rich
import torch
import typer
from language_model import comparison, models, ranks, report, runs, speed, tables
from language_model.comparison import Conditions
from language_model.runs import Places
from language_model.tokens import Tokens, prepare
from language_model.training import Settings
from platformdirs import user_cache_path
from rnnc.bench.report import machine
from rnnc.cli.console import print_table
from rnnc.cli.progress import track

SINCE = time.monotonic()
LIMIT = 530.0  # seconds of a command
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Device = StrEnum("Device", ["cpu", "cuda"])
Model = StrEnum("Model", [(name, name) for name in models.CONTENDERS])
Size = StrEnum("Size", [(name, name) for name in models.SIZES])
Style = StrEnum("Style", [(name, name) for name in ranks.STYLES])
By = StrEnum("By", ["tokens", "time"])
Count = Annotated[int | None, typer.Option(min=1)]
Seconds = Annotated[float | None, typer.Option(min=0.1)]
Vocabulary = Annotated[int | None, typer.Option(min=256, max=32_768)]
Models = Annotated[list[Model] | None, typer.Option("--model")]
Out = Annotated[Path, typer.Option(help="gets JSON, CSV and pictures")]
Work = Annotated[Path, typer.Option(help="gets tokens and checkpoints, which may be large")]
Text = Annotated[Path | None, typer.Option(help="a folder or file of text")]
OUT, WORK = Path("demo/language_model"), user_cache_path("rnnc-language-model")
app = typer.Typer(help=__doc__.splitlines()[0], add_completion=False)


def read(size: Size, work: Path, vocabulary: int | None, data: Path | None) -> Tokens:
    """The tokens; says what they are."""
    vocabulary = vocabulary or models.SIZES[size].vocabulary
    tokens = prepare(work, vocabulary, data, small=size == "tiny")
    told = tokens.corpus
    sizes = f"{told['train']['bytes'] / 1e6:.1f} + {told['validation']['bytes'] / 1e6:.1f} MB"
    counts = f"{len(tokens.train) / 1e6:.2f} + {len(tokens.validation) / 1e6:.2f} M tokens"
    rich.print(f"Text {told['digest'][:12]}: {sizes} to train and to validate, {counts}.")
    return tokens


def shape(size: Size, context: int | None, batch: int | None) -> tuple[int, int]:
    """The context and the batch: those of the size where they are not given."""
    usual = models.SIZES[size]
    context = context or usual.context
    return context, batch or max(1, usual.batch * usual.context // context)


@app.command()
def train(
    model: Model = Model.lstm,
    size: Size = Size.tiny,
    steps: Count = None,
    until: Count = None,
    resume: bool = False,
    rate: float | None = None,
    context: Count = None,
    batch: Count = None,
    vocabulary: Vocabulary = None,
    data: Text = None,
    out: Out = OUT,
    work: Work = WORK,
    device: Device = Device(DEVICE),
    compiled: Annotated[bool, typer.Option("--compile")] = False,
    tensorboard: bool = False,
    seed: int = 0,
    threads: Count = 2,
) -> None:
    """Train one model for STEPS steps; --until stops before them, --resume goes on there."""
    torch.set_num_threads(threads or 2)
    places, tokens = Places(out, work, tensorboard), read(size, work, vocabulary, data)
    context, batch = shape(size, context, batch)
    found, source = comparison.rate_of(model, size, places)
    steps = steps or max(1, comparison.TOKENS[size] // (context * batch))
    settings = Settings(
        model.value, size.value, context, batch, steps, rate or found, compiled, seed
    )
    name = f"{size}-{model}-run-{context}x{batch}"
    told = runs.run(
        *(name, settings, tokens, device.value, places),
        resume=resume,
        keep=True,
        until=until,
        facts={"by": None, "rate from": "given" if rate else source},
    )
    if told is None:
        rich.print(f"Stopped at step {until} of {steps}: --resume in place of --until goes on.")
        return
    rich.print(
        f"{told['label']}: perplexity {tables.number(told['perplexity'])} after"
        f" {told['tokens'] / 1e6:.2f} M tokens ({told['passes']:.2f} passes) in"
        f" {told['seconds']:.1f} s, {told['tokens_per_second'] / 1e3:.1f} k tokens/s."
    )
    rich.print(f"The weights are in {places.checkpoint(name)}.")


@app.command("ranks")
def on_ranks(
    style: Style | None = None,
    model: Model = Model.lstm,
    size: Size = Size("25m"),
    steps: Count = 50,
    context: Count = None,
    batch: Count = None,
    vocabulary: Vocabulary = None,
    data: Text = None,
    work: Work = WORK,
    device: Device = Device(DEVICE),
) -> None:
    """Train under torchrun; without a style, the same in one process. It prints the losses."""
    own = models.SIZES[size]
    settings = Settings(model, size, *shape(size, context, batch), steps or 50, 3e-4)
    ranks.train(style, settings, own, lambda: read(size, work, vocabulary, data), device)


@app.command()
def tune(
    model: Models = None,
    size: Size = Size(comparison.TUNED),
    seconds: Seconds = 20.0,
    vocabulary: Vocabulary = None,
    data: Text = None,
    out: Out = OUT,
    work: Work = WORK,
    device: Device = Device(DEVICE),
    compiled: Annotated[bool, typer.Option("--compile")] = False,
    threads: Count = 2,
) -> None:
    """Try learning rates for SECONDS each; larger models take the best, scaled by their width."""
    # Of torch's LSTMs on a GPU the faster one: the other one takes its rate.
    usual = [n for n in speed.contenders(device) if n != "nn-lstm" or device == "cpu"]
    names = [each.value for each in model] if model else usual
    conditions, tokens, places = begin(
        *(size, None, None, vocabulary, data, out, work, device, compiled, threads)
    )
    finished = comparison.tune(names, conditions, tokens, places, seconds or 20.0)
    raise typer.Exit(0 if finished else 3)


@app.command()
def compare(
    by: By = By.tokens,
    model: Models = None,
    size: Size = Size("25m"),
    seconds: Seconds = None,
    tokens: Count = None,
    context: Count = None,
    batch: Count = None,
    vocabulary: Vocabulary = None,
    data: Text = None,
    out: Out = OUT,
    work: Work = WORK,
    device: Device = Device(DEVICE),
    compiled: Annotated[bool, typer.Option("--compile")] = False,
    threads: Count = 2,
) -> None:
    """Train the models on as many TOKENS, at most SECONDS each, or for SECONDS each.

    Runs that are complete are not repeated. Exit code 3: some are left for the same command.
    """
    conditions, text, places = begin(
        *(size, context, batch, vocabulary, data, out, work, device, compiled, threads)
    )
    names = [each.value for each in model] if model else speed.contenders(device)
    finished = comparison.compare(
        *(names, by.value, conditions, text, places),
        seconds=seconds or comparison.SECONDS[size],
        count=tokens or comparison.TOKENS[size],
    )
    tell(places, text.corpus)
    raise typer.Exit(0 if finished else 3)


def begin(
    size: Size,
    context: int | None,
    batch: int | None,
    vocabulary: int | None,
    data: Path | None,
    out: Path,
    work: Path,
    device: Device,
    compiled: bool,
    threads: int | None,
) -> tuple[Conditions, Tokens, Places]:
    """What commands of several runs start with."""
    torch.set_num_threads(threads or 2)
    tokens = read(size, work, vocabulary, data)
    own = *shape(size, context, batch), device.value, compiled, 0
    return Conditions(size.value, *own, limit=LIMIT, since=SINCE), tokens, Places(out, work)


@app.command("speed")
def measure(
    model: Models = None,
    size: Size = Size("25m"),
    context: Count = None,
    batch: Count = None,
    seconds: Seconds = 4.0,
    out: Out = OUT,
    device: Device = Device(DEVICE),
    compiled: Annotated[bool, typer.Option("--compile")] = False,
    threads: Count = 2,
) -> None:
    """Tokens per second of training, on random tokens, in several shapes; SECONDS per figure."""
    torch.set_num_threads(threads or 2)
    names = [each.value for each in model] if model else speed.contenders(device)
    shapes = [shape(size, context, batch)] if context or batch else speed.defaults(size)
    dtypes = [torch.bfloat16, torch.float16] if device == "cuda" else [torch.float32]
    path, on = out / "speed.json", machine(device)
    old = json.loads(path.read_text("utf-8")) if path.exists() else {}
    old = old if old.get("machine") == on else {"rows": [], "recurrences": []}

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["size"], row["context"], row["batch"], row["model"], row["compiled"]

    found = {key(row): row for row in old["rows"]}
    for (steps, rows), name in track([(s, n) for s in shapes for n in names], "measuring"):
        if time.monotonic() - SINCE > LIMIT - 60:
            rich.print(f"No time left for {name} at {steps} x {rows}: name it by --model.")
            continue
        row = speed.measure(
            name, size.value, steps, rows, device.value, seconds or 4.0, compiled=compiled
        )
        found[key(row)] = row
    alone = {(r["width"], r["dtype"], r["model"]): r for r in old["recurrences"]}
    for row in speed.recurrences(size, device, dtypes):
        alone[row["width"], row["dtype"], row["model"]] = row
    told = {"date": str(date.today()), "machine": on}
    told |= {"rows": [*found.values()], "recurrences": [*alone.values()]}
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    tell_speed(told)


@app.command("report")
def show(
    size: Size = Size("25m"),
    vocabulary: Vocabulary = None,
    data: Text = None,
    out: Out = OUT,
    work: Work = WORK,
) -> None:
    """Gather what the other commands left into language_model.json, a table and pictures."""
    tell(Places(out, work), read(size, work, vocabulary, data).corpus)


def tell(places: Places, corpus: dict[str, Any]) -> None:
    result = report.gather(places, corpus)
    report.write(result, places.out)
    print_table(report.table(result))
    rich.print(f"Tables and pictures are in {places.out}.")
    if result["speed"]:
        tell_speed(result["speed"])


def tell_speed(told: dict[str, Any]) -> None:
    print_table(tables.speed_table(told["rows"]))
    print_table(tables.recurrences_table(told["recurrences"]))


if __name__ == "__main__":
    app()
