"""Initial values for the weights of `rnnc.RNN`, per head and gate.

A weight has the rows of all heads and gates: `torch.nn.init.orthogonal_` of it would make one
matrix of them all. These functions treat the rows of each gate and head as a matrix of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor, nn

from ...cellspec.errors import kind_of
from ...errors import TensorError
from ..call.forms import Named
from ..call.projection import OWN_WEIGHT, WEIGHT, reads_output
from .parameters import blocks_of, draw_orthogonal, drawn_anew
from .rnn import RNN


def orthogonal_(
    rnn: RNN,
    name: str = "weight_hh",
    *,
    gain: float = 1.0,
    gate: str | None = None,
    generator: Generator | None = None,
) -> None:
    """Make the matrix of each gate and head orthogonal, in place (Saxe et al., 2014).

    Args:
        rnn: the module.
        name: `weight_hh` or `weight_ih` for those of all layers and directions, or one of them,
            `weight_hh_l0` for example.
        gain: multiplies the matrices.
        gate: the name of a gate; None for all.
        generator: draws; None for torch's own.

    Raises:
        TensorError: it is no `rnnc.RNN`, it has no such weight, or the weight has no such gate.

    Example:
        >>> import torch, rnnc
        >>> rnn = rnnc.RNN(rnnc.cells.lstm, 10, 8, heads=2)
        >>> rnnc.init.orthogonal_(rnn, gain=2.0)
        >>> first = rnn.weight_hh_l0[:4]                     # head 0, gate i: (4, 4)
        >>> torch.allclose(first @ first.T, 4 * torch.eye(4), atol=1e-5)
        True
    """
    _fill(rnn, name, gate, 2, partial(draw_orthogonal, gain=gain, generator=generator))


def xavier_uniform_(
    rnn: RNN,
    name: str = "weight_ih",
    *,
    gain: float = 1.0,
    gate: str | None = None,
    generator: Generator | None = None,
) -> None:
    """Draw the matrix of each gate and head as `torch.nn.init.xavier_uniform_` (Glorot, 2010).

    Args:
        rnn: as in `orthogonal_`.
        name: as in `orthogonal_`.
        gain: as in `orthogonal_`.
        gate: as in `orthogonal_`.
        generator: as in `orthogonal_`.

    Raises:
        TensorError: as in `orthogonal_`.

    Example:
        >>> import rnnc
        >>> rnn = rnnc.RNN(rnnc.cells.lstm, 10, 8)
        >>> rnnc.init.xavier_uniform_(rnn, "weight_ih")
        >>> rnn.weight_ih_l0.abs().max() <= (6 / (10 + 8)) ** 0.5
        tensor(True)
    """
    _fill(rnn, name, gate, 2, partial(nn.init.xavier_uniform_, gain=gain, generator=generator))


def xavier_normal_(
    rnn: RNN,
    name: str = "weight_ih",
    *,
    gain: float = 1.0,
    gate: str | None = None,
    generator: Generator | None = None,
) -> None:
    """Draw the matrix of each gate and head as `torch.nn.init.xavier_normal_` (Glorot, 2010).

    Args:
        rnn: as in `orthogonal_`.
        name: as in `orthogonal_`.
        gain: as in `orthogonal_`.
        gate: as in `orthogonal_`.
        generator: as in `orthogonal_`.

    Raises:
        TensorError: as in `orthogonal_`.

    Example:
        >>> import rnnc
        >>> rnnc.init.xavier_normal_(rnnc.RNN(rnnc.cells.gru, 10, 8), "weight_hh_l0", gate="r")
    """
    _fill(rnn, name, gate, 2, partial(nn.init.xavier_normal_, gain=gain, generator=generator))


def constant_(rnn: RNN, name: str, value: float, *, gate: str | None = None) -> None:
    """Set the rows of a gate to a value: the bias of a forget gate to 1, for example.

    Args:
        rnn: as in `orthogonal_`.
        name: as in `orthogonal_`, or `bias` or `weight_hd`.
        value: of each element.
        gate: as in `orthogonal_`.

    Raises:
        TensorError: as in `orthogonal_`.

    Example:
        >>> import rnnc
        >>> rnn = rnnc.RNN(rnnc.cells.lstm, 10, 3)
        >>> rnnc.init.constant_(rnn, "bias", 1.0, gate="f")  # Jozefowicz et al., 2015
        >>> rnn.bias_l0.tolist()
        [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    _fill(rnn, name, gate, 1, partial(nn.init.constant_, val=value))


def _fill(
    rnn: RNN, name: str, gate: str | None, rank: int, change: Callable[[Tensor], object]
) -> None:
    """Change the rows of each gate and head in place; `gate` is None for all gates."""
    if not isinstance(rnn, RNN):
        raise TensorError("rnn", kind_of(rnn), "an rnnc.RNN", 'rnnc.RNN("lstm", 10, 8)')
    found = [named for named in rnn._all_weights() if named.gates is not None]
    found = [named for named in found if len(named.shape) >= rank]
    chosen = [named for named in found if name in (named.name, named.attribute)]
    if not chosen:
        names = dict.fromkeys(named.name for named in found)
        raise TensorError(
            "name", repr(name), f"one of {', '.join(names) or 'none'}", f"{next(iter(names), '')!r}"
        )
    with torch.no_grad():
        for named in chosen:
            with drawn_anew(rnn, named) as weight:
                for number, blocks in enumerate(blocks_of(named, weight)):
                    if number in _numbers(rnn, named, gate):
                        for block in blocks:
                            change(block)


def _numbers(rnn: RNN, named: Named, gate: str | None) -> list[int]:
    """Return the places of a gate among those of a weight."""
    cell = rnn.cell
    reads = reads_output(cell) if rnn.proj_size else [True] * len(cell.dense_pairs)
    pairs = list(zip(cell.dense_pairs, reads, strict=True))
    gates = {
        "weight_ih": list(cell.input_gates),
        "weight_hh": [pair.gate for pair, own in pairs if own],
        OWN_WEIGHT: [pair.gate for pair, own in pairs if not own],
        "weight_hd": [pair.gate for pair in cell.diagonal_pairs],
        "bias": list(cell.bias_gates),
        WEIGHT: [cell.states[0].name],
    }[named.name]
    found = [number for number, each in enumerate(gates) if gate in (None, each)]
    if not found:
        known = ", ".join(dict.fromkeys(gates))
        raise TensorError("gate", repr(gate), f"a gate of {named.name}: {known}", repr(gates[0]))
    return found
