"""Parity: a task of state tracking that recurrent cells learn and a Transformer does not.

Is the number of ones in a bit string odd? Six models, one of them a cell defined below, train on
strings of at most 40 bits and are validated on 40 to 256. They run on a GPU if there is one:

    pip install "rnnc[plots]" && python examples/parity.py --out demo

Every model is causal and learns the running parity: a label after each bit. The accuracy at length
T is that of the answer after bit T. The folder `--out` gets parity.png and the source that rnnc
generates for each cell: C++, or CUDA if a GPU trains. The exit status is 1 if a recurrent model's
accuracy is below 0.99.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

# Threads that wait by spinning slow each other down when other programs use the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import rich
import rnnc
import torch
import typer
from matplotlib.figure import Figure
from rich.table import Table
from rnnc import Gate, Param, State, cells, param, tanh
from rnnc.cli.progress import track
from rnnc.runtime.cuda.driver.device import device_limits
from torch import Tensor, nn

TRAINED, LONGEST, PASS = 40, 256, 0.99
BATCH, WIDTH, LEARNING_RATE = 64, 64, 1e-3
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NO_LABEL = -100  # where a task asks for nothing; torch's losses leave it out
Count = Annotated[int, typer.Option(min=1)]
Strings = Callable[[int, int, torch.Generator], tuple[Tensor, Tensor]]
PUBLISHED = {"transformer": "0.52"} | dict.fromkeys(("elman", "gru", "lstm", "slstm"), "1.00")


@rnnc.cell
def toggle(s: Gate, z: Gate, h: State, gain: Param = param(1.5)):
    """A latch: z sets it, the signed gate s keeps (+1), clears (0) or flips it (-1)."""
    # With a gain above 1, tanh has two stable points: a kept bit does not fade.
    return tanh(gain * tanh(s) * h + z)


CELLS = {cell.name: cell for cell in (cells.elman, cells.gru, cells.lstm, cells.slstm, toggle)}


class Transformer(nn.TransformerEncoder):
    """A pre-norm encoder of two layers with a causal mask; called like an RNN."""

    def __init__(self) -> None:
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, 0.0, batch_first=True, norm_first=True)
        super().__init__(layer, 2, nn.LayerNorm(WIDTH), enable_nested_tensor=False)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Encode (B, T, WIDTH)."""
        steps, waves = (torch.arange(n, device=DEVICE) for n in (x.shape[1], WIDTH // 2))
        angles = steps[:, None] / 1e4 ** (2 * waves / WIDTH)
        positions = torch.cat([angles.sin(), angles.cos()], dim=1)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=DEVICE)
        return super().forward(x + positions, mask=mask, is_causal=True), None


def sequence_model(name: str) -> nn.Module:
    """The model of a name over (B, T, WIDTH), called like an RNN."""
    cell = CELLS.get(name)
    return rnnc.RNN(cell, WIDTH, WIDTH, batch_first=True) if cell else Transformer()


class Classifier(nn.Module):
    """An embedding, a sequence model, and logits after each token: of even and odd by default."""

    def __init__(self, model: str | nn.Module, tokens: int = 2, classes: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, WIDTH)
        self.body = sequence_model(model) if isinstance(model, str) else model
        self.logits = nn.Linear(WIDTH, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Run over (B, T)."""
        return self.logits(self.body(self.embedding(tokens))[0])


def strings(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random bit strings, and their parity after each bit: 1 if the number of ones is odd."""
    bits = torch.randint(0, 2, (count, length), generator=generator).to(DEVICE)
    return bits, bits.cumsum(1) % 2


@torch.no_grad()
def accuracy(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """The share of right answers after each token; NaN where no string has a label."""
    # In parts: attention over 1024 long strings at once takes gigabytes.
    answers = torch.cat([model(part).argmax(-1) for part in tokens.split(128)])
    right = (answers == labels).sum(0)
    return (right / (labels != NO_LABEL).sum(0)).cpu()


def train(
    name: str,
    steps: int,
    seed: int,
    build: Callable[[str], nn.Module] = Classifier,
    task: Strings = strings,
    rate: float = LEARNING_RATE,
    quiet: bool = False,
) -> tuple[dict[int, float], Tensor]:
    """Train a model: its accuracy per step of training, and per length at the end."""
    torch.manual_seed(seed)
    data = torch.Generator().manual_seed(seed + 1)  # the same strings for every model
    held_out, long = task(512, TRAINED, data), task(1024, LONGEST, data)
    model, curve = build(name).to(DEVICE), {}
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=100)
    for step in track(range(1, steps + 1), f"training {name}", disable=quiet):
        tokens, labels = task(BATCH, TRAINED, data)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        if step % 50 == 0 or step == steps:
            curve[step] = accuracy(model, *held_out).nanmean().item()
            if step >= 300 and min(list(curve.values())[-6:]) == 1:
                break  # solved for 250 steps
    return curve, accuracy(model, *long)


def draw(results: dict[str, tuple[dict[int, float], Tensor]], path: Path) -> None:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, (curve, by_length) in results.items():
        left.plot(range(1, LONGEST + 1), by_length, label=name)
        right.plot(curve.keys(), curve.values())
    left.axvspan(1, TRAINED, color="0.9", label="trained lengths")
    left.set(xlabel="length in bits", ylabel="accuracy", title="After training")
    right.set(xlabel="step", title=f"While training: held-out strings, lengths 1 to {TRAINED}")
    left.legend()
    figure.savefig(path, dpi=150)


def write_sources(folder: Path) -> None:
    """The kernels that train each cell, as text."""
    folder.mkdir(parents=True, exist_ok=True)
    for cell in CELLS.values():
        source, kind = cell.cpp(), "cpp"
        if DEVICE == "cuda":
            here = device_limits(torch.cuda.current_device())
            source = cell.cuda(head_dim=WIDTH, dtype="float32", gpu=here, batch=BATCH)
            kind = "cu"
        (folder / f"{cell.name}.{kind}").write_text(source.code, "utf-8")


def main(out: Path = Path("demo"), steps: Count = 1500, seed: int = 0, threads: Count = 2) -> None:
    """Train on short bit strings, at most STEPS steps per model; validate on long ones."""
    torch.set_num_threads(threads)
    write_sources(out / "sources")
    columns = "model", "steps", "seconds", f"1..{TRAINED}", f"{TRAINED}..{LONGEST}", "published"
    table = Table(*columns, title=f"Accuracy, trained on lengths <= {TRAINED}")
    table.caption = "Chance is 0.50: half of all strings are odd.\nPublished: FlashRNN, ICLR 2025."
    results, extrapolated = {}, {}
    for name in [*CELLS, "transformer"]:
        start = time.perf_counter()
        curve, by_length = results[name] = train(name, steps, seed)
        extrapolated[name] = by_length[TRAINED - 1 :].mean().item()
        row = f"{max(curve)}", f"{time.perf_counter() - start:.0f}", f"{curve[max(curve)]:.3f}"
        table.add_row(name, *row, f"{extrapolated[name]:.3f}", PUBLISHED.get(name, "-"))
    draw(results, out / "parity.png")
    rich.print(table, f"Picture and sources are in {out}.")
    if failed := [name for name in CELLS if extrapolated[name] < PASS]:
        rich.print(f"[red]Below {PASS} on {TRAINED} to {LONGEST}: {', '.join(failed)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
