"""A cell for the kernels that run as C++ on the CPU."""

from __future__ import annotations

import pytest
import rnnc
from rnnc import Gate, Param, State, clip_gradient, sigmoid, tanh


@rnnc.cell
def clipped(g: Gate, f: Gate, h: State, c: State, w: Param):
    """A cell whose backward is not linear in the gradients of its states."""
    c = sigmoid(f) * c + tanh(clip_gradient(g, 0.5) + w * h)
    return tanh(c), c


@pytest.fixture(name="clipped", scope="session")
def _clipped():
    return clipped
