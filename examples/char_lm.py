"""A language model of bytes with any cell, trained on the source of Python's standard library.

Every 20th file is held out. Two layers of the cell read the text with truncated back-propagation
through time: states pass from one window to the next, gradients do not. The score is bits per byte
on the held-out files; it is 8 before training.

    python examples/char_lm.py --cell slstm --save model.pt
    python examples/char_lm.py --cell slstm --resume model.pt --steps 2000 --save model.pt

`--steps` includes the steps before `--resume`. A resumed run continues exactly where it stopped:
its weights and samples are those of an uninterrupted run, bit for bit. `rnnc list` shows the cells.
"""

import math
import os
import sysconfig
from pathlib import Path
from typing import Annotated, Literal

# Threads that wait by spinning slow each other down when other programs use the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import rich
import rnnc
import torch
import typer
from rnnc.cli.progress import track
from torch import Tensor, nn

BATCH, WINDOW, LEARNING_RATE = 32, 128, 3e-3
SKIPPED = {"test", "tests", "idle_test", "site-packages", "dist-packages"}
States = tuple[Tensor, ...]
Count = Annotated[int, typer.Option(min=1)]
Existing = Annotated[Path | None, typer.Option(exists=True, dir_okay=False)]


class ByteModel(nn.Module):
    """An embedding of bytes, two recurrent layers, and the logits of the next byte."""

    def __init__(self, cell: rnnc.Cell, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, hidden)
        self.rnn = rnnc.RNN(cell, hidden, hidden, num_layers=2)
        self.logits = nn.Linear(hidden, 256)

    def forward(self, text: Tensor, states: States | None = None) -> tuple[Tensor, States]:
        """Run over (T, B) bytes, starting from the states that the previous call returned."""
        hidden, states = self.rnn(self.embedding(text), states)
        return self.logits(hidden), states


def source_files() -> tuple[list[Path], list[Path]]:
    """The files of the standard library: for training, and held out."""
    files = []
    for folder, folders, names in os.walk(sysconfig.get_paths()["stdlib"]):
        folders[:] = sorted({*folders} - SKIPPED)  # the order is the same on every machine
        files += [Path(folder, name) for name in sorted(names) if name.endswith(".py")]
    return [path for i, path in enumerate(files) if i % 20], files[::20]


def windows(files: list[Path], device: str) -> list[Tensor]:
    """The text as BATCH streams, cut into windows (WINDOW + 1, BATCH) that share a byte."""
    text = b"".join(path.read_bytes() for path in files)
    length = len(text) // BATCH
    streams = torch.frombuffer(bytearray(text), dtype=torch.uint8)[: BATCH * length]
    streams = streams.view(BATCH, length).T.to(device)
    return [streams[i : i + WINDOW + 1] for i in range(0, length - WINDOW, WINDOW)]


def read(model: ByteModel, window: Tensor, states: States | None) -> tuple[Tensor, States]:
    """The mean cross-entropy of a window's bytes in bits, and the states after the window."""
    text = window.long()
    logits, states = model(text[:-1], states)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[1:].flatten())
    return loss / math.log(2), tuple(state.detach() for state in states)


@torch.no_grad()
def bits_per_byte(model: ByteModel, held_out: list[Tensor]) -> float:
    total, states = 0.0, None
    for window in held_out:
        loss, states = read(model, window, states)
        total += loss.item()
    return total / len(held_out)


@torch.no_grad()
def sample(model: ByteModel, prompt: bytes, count: int, temperature: float = 0.7) -> bytes:
    """The prompt and `count` further bytes, with one step of the RNN per byte."""
    text, states = bytearray(prompt), None
    for position in range(len(prompt) + count - 1):
        byte = torch.tensor(text[position], device=model.logits.weight.device)
        hidden, states = model.rnn.step(model.embedding(byte), states)
        if position == len(text) - 1:
            chances = (model.logits(hidden) / temperature).softmax(-1)
            text.append(int(torch.multinomial(chances.cpu(), 1)))
    return bytes(text)


def main(
    cell: str = "slstm",
    hidden: Count = 128,
    steps: Count = 1000,
    every: Count = 200,
    save: Path | None = None,
    resume: Existing = None,
    device: Literal["cpu", "cuda"] = "cpu",
    seed: int = 0,
    threads: Count = 2,
) -> None:
    """Train; validate and save every EVERY steps; print a sample at the end."""
    try:
        chosen = rnnc.cells.get(cell)
    except rnnc.CellError as error:
        raise SystemExit(str(error)) from None
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    model = ByteModel(chosen, hidden).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    title, first, states = f"{cell} ({chosen.fingerprint[:8]}) with --hidden {hidden}", 0, None
    if resume:
        saved = torch.load(resume, map_location=device)
        if saved["title"] != title:
            raise SystemExit(f"{resume} holds {saved['title']}; this run is {title}")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first, states = saved["step"], saved["states"]
        torch.set_rng_state(saved["generator"].cpu())
    train, held_out = (windows(files, device) for files in source_files())
    for step in track(range(first, steps), f"training {chosen.name}"):
        if step % len(train) == 0:
            states = None  # back to the start of the text
        loss, states = read(model, train[step % len(train)], states)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        done = step + 1
        if done % every == 0 or done == steps:
            rich.print(f"step {done}: {bits_per_byte(model, held_out):.3f} bits per byte")
            if save:
                weights = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                place = {"step": done, "states": states, "generator": torch.get_rng_state()}
                torch.save({"title": title, "cell": chosen.to_json(), **weights, **place}, save)
    print(sample(model, b"def ", 300).decode(errors="replace"))


if __name__ == "__main__":
    typer.run(main)
