"""The cells of random modules: of the library, and with inputs that no weight multiplies."""

from __future__ import annotations

from typing import Any

from ...cellspec.cell import CellSpec
from ...cellspec.declare import Gate, Input, State, gate
from ...cellspec.functions import exp, sigmoid, softplus, tanh
from ...cellspec.library import load
from ...cellspec.noise.distributions import bernoulli, normal, uniform
from ...cellspec.tracing.trace import cell

# Smooth ones, so that rounding decides no comparison. All kinds of recurrent weights are there.
LIBRARY = (
    "lstm",
    "gru",
    "elman",
    "slstm",
    "peephole_lstm",
    "indrnn",
    "mingru",
    "cornn",
    "minimal_rnn",
    "brc",
    "cifg_lstm",
    "scrn",
    "unicornn",
    "fastgrnn",
    "ugrnn",
)


@cell
def gap_lstm(i: Gate, f: Gate, z: Gate, o: Gate, gap: Input, h: State, c: State) -> Any:
    """LSTM whose cell state decays with the time since the step before."""
    c = sigmoid(f) * exp(-softplus(gap)) * c + sigmoid(i) * tanh(z)
    return sigmoid(o) * tanh(c), c


_WITHOUT_INPUT = gate(input=False)


@cell
def gained_gru(
    z: Gate, n: Gate, gain: Input, shift: Input, h: State, m: Gate = _WITHOUT_INPUT
) -> Any:
    """Gated unit whose candidate is scaled and shifted by inputs."""
    u = sigmoid(z)
    return u * h + (1 - u) * tanh(n * gain + m + shift)


_KEEP, _XI = bernoulli(0.3), normal(0.1, 0.3)
_MASK = uniform(0.5, 1.5, per="sequence")


@cell
def noisy_lstm(
    f: Gate,
    z: Gate,
    o: Gate,
    gain: Input,
    h: State,
    c: State,
    keep: Input = _KEEP,
    xi: Input = _XI,
    mask: Input = _MASK,
) -> Any:
    """LSTM with noise of each kind, which its calls draw."""
    new = sigmoid(f) * c + tanh(z * gain + xi)
    c = keep * c + (1 - keep) * new
    return sigmoid(o) * tanh(c) * mask, c


WITH_INPUTS = {"gap_lstm": gap_lstm, "gained_gru": gained_gru, "noisy_lstm": noisy_lstm}
CELLS = (*LIBRARY, *WITH_INPUTS)
# Those that read their output through dense matrices alone, so that it may be projected.
PROJECTABLE = ("lstm", "elman", "cifg_lstm", "gap_lstm", "noisy_lstm")


def cell_named(name: str) -> CellSpec:
    """Return a cell of random modules by its name.

    Args:
        name: one of `CELLS`.
    """
    return WITH_INPUTS[name] if name in WITH_INPUTS else load(name)
