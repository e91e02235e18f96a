"""Hodgkin and Huxley's neuron beside scipy's integrator: spike times, and a picture.

    pip install "rnnc[plots]" scipy && python examples/neuron.py --out demo

Neurons get currents of four shapes for 100 ms. `rnnc.cells.hodgkin_huxley` takes ten sub-steps of
0.01 ms for each step of 0.1 ms; all neurons are rows of one call, on a GPU if there is one. scipy
integrates the equations, written once more below, with an error of 1e-9. A spike is where the
potential passes 0 mV upwards. The folder `--out` gets neuron.png. The exit status is 1 if a spike
of one has none of the other within 0.05 ms.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import rich
import rnnc
import torch
import typer
from matplotlib.figure import Figure
from rich.table import Table

try:
    from scipy.integrate import solve_ivp
    from scipy.special import exprel
except ImportError as error:
    raise SystemExit(f"{error}\nThis example needs one more package: pip install scipy") from None

DURATION, STEP, CLOSE = 100.0, 0.1, 0.05  # ms
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CELL = rnnc.cells.hodgkin_huxley
Current = Callable[[float], float]  # µA/cm² at a time in ms
CURRENTS: dict[str, Current] = {
    "10 µA/cm² from 5 ms": lambda t: 10.0 * (t >= 5),
    "40 µA/cm² from 5 ms": lambda t: 40.0 * (t >= 5),
    "a ramp to 20 µA/cm²": lambda t: t / 5,
    "a sine of 50 Hz": lambda t: 12 * np.sin(2 * np.pi * t / 20),
}


def rates(v: float) -> np.ndarray:
    """How fast the gates m, h and n open, and how fast they close, per ms."""
    # exprel(x) is (exp(x) - 1) / x, also at 0.
    opening = (
        1 / exprel(-(v + 40) / 10),
        0.07 * np.exp(-(v + 65) / 20),
        0.1 / exprel(-(v + 55) / 10),
    )
    closing = (
        4 * np.exp(-(v + 65) / 18),
        1 / (1 + np.exp(-(v + 35) / 10)),
        0.125 * np.exp(-(v + 65) / 80),
    )
    return np.array([opening, closing])


def slopes(t: float, y: np.ndarray, current: Current) -> np.ndarray:
    """The derivative of v, m, h and n."""
    v, m, h, n = y
    opening, closing = rates(v)
    ions = 120 * m**3 * h * (v - 50) + 36 * n**4 * (v + 77) + 0.3 * (v + 54.387)
    gates = opening * (1 - y[1:]) - closing * y[1:]
    return np.array([current(t) - ions, *gates])


def by_scipy(current: Current) -> tuple[np.ndarray, np.ndarray]:
    """The potential at the end of each step, and the times of spikes."""

    def spike(t: float, y: np.ndarray, _: Current) -> float:
        return y[0]

    spike.direction = 1
    start = [state.init for state in CELL.states[1:]]
    found = solve_ivp(
        slopes,
        (0, DURATION),
        start,
        t_eval=STEP * np.arange(1, round(DURATION / STEP) + 1),
        events=spike,
        args=(current,),
        max_step=STEP,  # a jump of the current is at the end of a step
        rtol=1e-9,
        atol=1e-9,
    )
    return found.y[0], found.t_events[0]


def by_rnnc(dtype: torch.dtype) -> np.ndarray:
    """The potential of each neuron at the end of each step."""
    middles = STEP * (np.arange(round(DURATION / STEP)) + 0.5)
    currents = np.array([[current(t) for t in middles] for current in CURRENTS.values()])
    wx = torch.tensor(currents, dtype=dtype, device=DEVICE)[:, :, None, None, None]
    alone = wx.new_zeros(1, 1, 1, 1)  # no neuron reads another's spikes
    (_, v, *_), _ = rnnc.scan(CELL, wx, alone)
    return v[:, :, 0, 0].double().cpu().numpy()


def spike_times(v: np.ndarray) -> np.ndarray:
    """Where the potential passes 0 mV upwards, between steps by a line."""
    before = np.flatnonzero((v[:-1] <= 0) & (v[1:] > 0))
    part = v[before] / (v[before] - v[before + 1])
    return STEP * (before + 1 + part)


def largest_difference(times: np.ndarray, others: np.ndarray) -> float:
    """Of spikes one by one; infinite if the numbers differ."""
    if len(times) != len(others):
        return float("inf")
    return float(np.abs(times - others).max(initial=0))


def draw(potentials: np.ndarray, exact: list[np.ndarray], path: Path) -> None:
    figure = Figure(figsize=(9, 7), layout="constrained")
    times = STEP * np.arange(1, potentials.shape[1] + 1)
    axes = figure.subplots(len(CURRENTS), sharex=True, sharey=True)
    for ax, name, ours, theirs in zip(axes, CURRENTS, potentials, exact, strict=True):
        ax.plot(times, theirs, color="0.7", linewidth=3, label="scipy")
        ax.plot(times, ours, linewidth=1, label="rnnc")
        ax.set(title=name, ylabel="mV")
    axes[0].legend(loc="upper right")
    axes[-1].set(xlabel="ms")
    figure.savefig(path, dpi=150)


def main(out: Path = Path("demo"), double: bool = False) -> None:
    """Compare spike times; with --double the kernels compute in float64."""
    table = Table("current", "spikes", "of scipy", "largest difference in ms")
    potentials, exact, worst = by_rnnc(torch.float64 if double else torch.float32), [], 0.0
    for (name, current), v in zip(CURRENTS.items(), potentials, strict=True):
        theirs, wanted = by_scipy(current)
        times = spike_times(v)
        difference = largest_difference(times, wanted)
        table.add_row(name, f"{len(times)}", f"{len(wanted)}", f"{difference:.4f}")
        exact.append(theirs)
        worst = max(worst, difference)
    out.mkdir(parents=True, exist_ok=True)
    draw(potentials, exact, out / "neuron.png")
    rich.print(table, f"The picture is in {out}.")
    if worst > CLOSE:
        rich.print(f"[red]Spikes differ by more than {CLOSE} ms.")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
