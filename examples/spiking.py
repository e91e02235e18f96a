"""A recurrent spiking network of rnnc beside snnTorch's, from the same weights.

    pip install "rnnc[plots]" snntorch && python examples/spiking.py --out demo

Both are `Linear`, recurrent leaky integrate-and-fire neurons with the fast-sigmoid surrogate, and a
readout of their spikes: `rnnc.cells.rlif_fast_sigmoid` in one call, and `snntorch.RLeaky` in a loop
over steps. They classify spikes that lie on smooth random curves (Zenke & Vogels, 2021), where only
the times of spikes tell the classes apart. The first step must have the same loss and gradients,
the mean curves of three seeds must be as close as seeds are, and every output must be 0 or 1; else
the exit status is 1. The folder `--out` gets spiking.png: the curves, and the spikes of a trained
layer; and spiking.json: what was found. `--speed` times forward + backward of the two layers alone,
for spiking_speed.json.
"""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

# Threads that wait by spinning slow each other down when other programs use the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import rich
import rnnc
import torch
import typer
from matplotlib.figure import Figure
from rich.table import Table
from rnnc.bench.report import Record
from rnnc.cli.progress import track
from torch import Tensor, nn

try:
    import snntorch
except ImportError as error:
    raise SystemExit(
        f"{error}\nThis example needs one more package: pip install snntorch"
    ) from None

CELL = rnnc.cells.rlif_fast_sigmoid
CONSTANTS = {constant.name: constant.value for constant in CELL.constants}
CLASSES, INPUTS, STEPS, HIDDEN = 4, 40, 100, 128
SAMPLES, BATCH, RATE, CLOSE = 1024, 128, 2e-3, 1e-4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Count = Annotated[int, typer.Option(min=1)]


class Rnnc(nn.Module):
    """The network with rnnc's layer."""

    def __init__(self, inputs: int = INPUTS, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.layer = rnnc.RNN(CELL, inputs, hidden, batch_first=True, precision="ieee")
        # So that few inputs, which come one by one, make a neuron spike.
        nn.init.normal_(self.layer.weight_ih_l0, std=0.7)
        self.readout = nn.Linear(hidden, CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and spikes of (B, T, inputs)."""
        spikes, _ = self.layer(x)
        return self.readout(spikes.sum(1) / 10), spikes


class SnnTorch(nn.Module):
    """The network with snnTorch's layer, and the weights of another."""

    def __init__(self, other: Rnnc) -> None:
        super().__init__()
        weights = dict(other.layer.named_parameters())
        hidden, inputs = weights["weight_ih_l0"].shape
        self.inward = nn.Linear(inputs, hidden)
        self.layer = snntorch.RLeaky(
            beta=CONSTANTS["beta"],
            threshold=CONSTANTS["threshold"],
            linear_features=hidden,
            spike_grad=snntorch.surrogate.fast_sigmoid(slope=CONSTANTS["k"]),
        )
        self.layer.recurrent = nn.Linear(hidden, hidden, bias=False)  # `inward` has one
        self.readout = nn.Linear(hidden, CLASSES)
        self.to(DEVICE)
        with torch.no_grad():
            self.inward.weight.copy_(weights["weight_ih_l0"])
            self.inward.bias.copy_(weights["bias_l0"])
            self.layer.recurrent.weight.copy_(weights["weight_hh_l0"])
            self.readout.load_state_dict(other.readout.state_dict())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and spikes of (B, T, inputs)."""
        drive, spikes = self.inward(x), []
        spike, potential = self.layer.reset_mem()
        for t in range(x.shape[1]):
            spike, potential = self.layer(drive[:, t], spike, potential)
            spikes.append(spike)
        over_time = torch.stack(spikes, 1)
        return self.readout(over_time.sum(1) / 10), over_time

    def named(self) -> dict[str, nn.Parameter]:
        """Parameters by rnnc's names."""
        return {
            "layer.weight_ih_l0": self.inward.weight,
            "layer.weight_hh_l0": self.layer.recurrent.weight,
            "layer.bias_l0": self.inward.bias,
            "readout.weight": self.readout.weight,
            "readout.bias": self.readout.bias,
        }


class Curve(NamedTuple):
    """What training one network gave.

    Attributes:
        losses: the mean of each epoch.
        accuracy: on the samples that were held out.
        seconds: per epoch, the median.
        others: outputs that are neither 0 nor 1.
        outputs: how many there were.
    """

    losses: list[float]
    accuracy: float
    seconds: float
    others: int
    outputs: int


def curves(seed: int) -> tuple[Tensor, Tensor]:
    """Samples (2 x SAMPLES, T, inputs) of 0 and 1, and their classes.

    Each input spikes once. On a class's curve its time is a smooth random function of one number,
    which is drawn for each sample.
    """
    draw = torch.Generator().manual_seed(seed)
    waves = torch.arange(1, 4)
    heights = torch.rand(CLASSES, INPUTS, 3, generator=draw) / waves**2
    phases = torch.rand(CLASSES, INPUTS, 3, generator=draw)
    labels = torch.arange(2 * SAMPLES) % CLASSES
    place = torch.rand(2 * SAMPLES, 1, 1, generator=draw) / 2
    angles = 2 * torch.pi * (waves * place + phases[labels])
    times = (heights[labels] * angles.sin()).sum(-1)
    low, high = times.amin(0), times.amax(0)
    steps = ((times - low) / (high - low) * (STEPS - 1)).round().long()
    spikes = torch.zeros(2 * SAMPLES, STEPS, INPUTS).scatter_(1, steps[:, None], 1.0)
    return spikes.to(DEVICE), labels.to(DEVICE)


def first_step(ours: Rnnc, theirs: SnnTorch, x: Tensor, labels: Tensor) -> dict[str, float]:
    """How far loss and gradients are apart, relative to the largest number of each."""
    found = []
    for model, named in ((ours, dict(ours.named_parameters())), (theirs, theirs.named())):
        loss = nn.functional.cross_entropy(model(x)[0], labels)
        gradients = torch.autograd.grad(loss, list(named.values()))
        found.append({"loss": loss.detach()} | dict(zip(named, gradients, strict=True)))
    one, other = found
    return {
        name: ((other[name] - value).abs().max() / value.abs().max()).item()
        for name, value in one.items()
    }


def train(model: nn.Module, x: Tensor, labels: Tensor, epochs: int, seed: int) -> Curve:
    """Train on the first half of the samples; the second half gives the accuracy."""
    order, losses, seconds = torch.Generator().manual_seed(seed), [], []
    optimizer, others, outputs = torch.optim.Adam(model.parameters(), RATE), 0, 0
    for _ in track(range(epochs), f"training {type(model).__name__}, seed {seed}"):
        start, total = time.perf_counter(), 0.0
        for rows in torch.randperm(SAMPLES, generator=order).to(DEVICE).split(BATCH):
            logits, spikes = model(x[rows])
            loss = nn.functional.cross_entropy(logits, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(rows) / SAMPLES
            others += int(((spikes != 0) & (spikes != 1)).sum())
            outputs += spikes.numel()
        losses.append(total)
        seconds.append(time.perf_counter() - start)
    with torch.no_grad():
        right = model(x[SAMPLES:])[0].argmax(-1) == labels[SAMPLES:]
    middle = sorted(seconds)[epochs // 2]
    return Curve(losses, right.float().mean().item(), middle, others, outputs)


def within_spread(ours: list[Curve], theirs: list[Curve]) -> bool:
    """Whether the mean curves are no farther apart than two seeds of the same network."""
    sides = [torch.tensor([curve.losses for curve in curves]) for curves in (ours, theirs)]
    spread = max((side.amax(0) - side.amin(0)).max().item() for side in sides)
    return bool(((sides[0].mean(0) - sides[1].mean(0)).abs() <= spread).all())


def draw(ours: list[Curve], theirs: list[Curve], spikes: Tensor, path: Path) -> None:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for curves, name, color in ((ours, "rnnc", "C0"), (theirs, "snnTorch", "C1")):
        for number, curve in enumerate(curves):
            left.plot(curve.losses, color=color, label=None if number else name)
    left.set(xlabel="epoch", ylabel="loss", title=f"{len(ours)} seeds each")
    left.legend()
    steps, neurons = spikes.nonzero(as_tuple=True)
    right.scatter(steps.cpu(), neurons.cpu(), s=3, marker="|")
    right.set(xlabel="step", ylabel="neuron", title="Spikes of the trained layer")
    figure.savefig(path, dpi=150)


def milliseconds(model: nn.Module, x: Tensor, repeat: int = 5) -> float:
    """Forward + backward of the spikes of a layer, the median."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        model(x)[1].sum().backward()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    return sorted(times[1:])[repeat // 2]  # the first compiles


def compare_speed(batch: int, units: int, steps: int, path: Path) -> None:
    ours = Rnnc(units, units).to(DEVICE)
    x = (torch.rand(batch, steps, units, device=DEVICE) < 0.05).float()
    one, other = milliseconds(ours, x), milliseconds(SnnTorch(ours), x)
    rich.print(
        f"B {batch}, {units} units, T {steps}, forward + backward: rnnc {one:.3g} ms, snnTorch"
        f" {other:.4g} ms, {other / one:.1f} times"
    )
    sizes = {"batch": batch, "units": units, "steps": steps}
    write(path, **sizes, milliseconds={"rnnc": one, "snnTorch": other})


def write(path: Path, **found: Any) -> None:
    """Write what was found as JSON, with the command, the machine and the day."""
    command = shlex.join(["python", "examples/spiking.py", *sys.argv[1:]])
    record = Record(DEVICE, command, snntorch=snntorch.__version__)
    path.parent.mkdir(parents=True, exist_ok=True)
    record.into(path)
    record.write(**found)


def main(
    out: Path = Path("demo"),
    epochs: Count = 20,
    seeds: Count = 3,
    threads: Count = 2,
    speed: bool = False,
    units: Count = 512,
) -> None:
    """Compare the first step, the curves and the time per epoch."""
    torch.set_num_threads(threads)
    if speed:
        compare_speed(128, units, 500, out / "spiking_speed.json")
        return
    x, labels = curves(0)
    ours, theirs, wrong, apart = [], [], [], dict[str, float]()
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = Rnnc().to(DEVICE)
        twin = SnnTorch(model)
        if not seed:
            apart = first_step(model, twin, x[:BATCH], labels[:BATCH])
            worst = max(apart, key=apart.__getitem__)
            rich.print(f"First step: at most {apart[worst]:.1e} apart, in {worst}.")
            wrong += ["the first step"] * (not apart[worst] <= CLOSE)
        ours.append(train(model, x, labels, epochs, seed))
        theirs.append(train(twin, x, labels, epochs, seed))
    wrong += ["the curves"] * (not within_spread(ours, theirs))
    wrong += ["a spike"] * any(curve.others for curve in ours)
    table = Table("", "last loss", "held-out accuracy", "seconds per epoch", "neither 0 nor 1")
    for name, found in (("rnnc", ours), ("snnTorch", theirs)):
        losses = ", ".join(f"{curve.losses[-1]:.3f}" for curve in found)
        accuracies = ", ".join(f"{curve.accuracy:.3f}" for curve in found)
        middle = sorted(curve.seconds for curve in found)[seeds // 2]
        others = f"{sum(c.others for c in found)} of {sum(c.outputs for c in found)}"
        table.add_row(name, losses, accuracies, f"{middle:.2f}", others)
    found = {"rnnc": [c._asdict() for c in ours], "snnTorch": [c._asdict() for c in theirs]}
    write(out / "spiking.json", first_step=apart, runs=found, wrong=wrong)
    with torch.no_grad():
        draw(ours, theirs, model(x[:1])[1][0], out / "spiking.png")
    rich.print(table, f"The picture and the results are in {out}.")
    if wrong:
        rich.print(f"[red]Not as they should be: {', '.join(wrong)}.")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
