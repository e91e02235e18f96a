"""Identity of the cell of a state dict: its name, and a digest of the meaning of its parameters.

The digest covers the cell's declarations and its rounded results on fixed numbers. So it does not
depend on the form of the equations, nor on the values of constants. The equations are there for the
message that says in what two cells differ.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...cellspec.cell import CellSpec
from ...cellspec.named import is_named
from ...errors import TensorError
from ..call.tensors import ScanInputs
from ..targets.reference import scan_reference

_DIGITS = 6
_SHOWN = 100  # characters of an equation in a message


def identity_of(cell: CellSpec) -> dict[str, Any]:
    """Return a cell's entry in the metadata of a state dict."""
    digest, equations = _compared(cell)
    return {"name": cell.name, "digest": digest, "equations": list(equations)}


def check_same_cell(found: Any, cell: CellSpec, prefix: str) -> None:
    """Raise a `TensorError` if `found`, the metadata of a state dict, names another cell."""
    digest, equations = _compared(cell)
    if not isinstance(found, dict) or found.get("digest") == digest:
        return
    name = str(found.get("name"))
    other = name if name != cell.name else f"another cell that is called {name}"
    theirs, own = _differing(found.get("equations"), equations)
    if name != cell.name and is_named(name):
        write = f"rnnc.RNN({name!r}, ...) if that is what you load"
    else:
        write = f"an rnnc.RNN of the {name} that they were saved with"
    raise TensorError(
        f"state_dict of {prefix[:-1] or 'the module'}",
        f"the weights of {other}{theirs}",
        f"those of {cell.name}{own}",
        f"{write}, or load_state_dict(dict(state_dict)) to load them all the same",
    )


@lru_cache(maxsize=512)
def _compared(cell: CellSpec) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a cell, and its equations."""
    return _digest(cell), cell.equations()


def _differing(saved: Any, own: tuple[str, ...]) -> tuple[str, str]:
    """Find the first equation in which two cells differ, as the ends of two lines of a message."""
    if not isinstance(saved, list):
        return "", ""
    theirs, ours = ({str(line).partition(" = ")[0]: str(line) for line in e} for e in (saved, own))
    name = next((n for n in [*theirs, *ours] if theirs.get(n) != ours.get(n)), None)
    if name is None:
        return ", with the same equations", ", with its own order of states, params and inputs"
    lines = theirs.get(name, f"no {name}"), ours.get(name, f"no {name}")
    differ = (a != b for a, b in zip_longest(*lines))
    place = next(at for at, differs in enumerate(differ) if differs)
    return _around(lines[0], place), _around(lines[1], place)


def _around(line: str, place: int) -> str:
    """Return a line, or the part of a long one around a place."""
    begin = max(place - _SHOWN // 2, 0) if len(line) > _SHOWN else 0
    shown = line[begin : begin + _SHOWN]
    return f", with {'…' * (begin > 0)}{shown}{'…' * (begin + _SHOWN < len(line))}"


def _digest(cell: CellSpec) -> str:
    declared = [
        [list(cell.input_gates), list(cell.bias_gates)],
        [[p.gate, p.source] for p in cell.dense_pairs],
        [[p.gate, p.source] for p in cell.diagonal_pairs],
        [s.name for s in cell.states],
        [p.name for p in cell.params],
    ]
    passed = [i.name for i in cell.inputs if i.name not in cell.drawn]
    if passed:  # the digests of cells without any are those of saved state dicts
        declared.append(passed)
    text = json.dumps([declared, _values(cell)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _values(cell: CellSpec) -> list[str]:
    """Return the cell's results over two steps of fixed numbers, in float64; what is drawn is 0."""
    numbers, drawn = _numbers(), cell.drawn

    def draw(*shape: int) -> Tensor:
        count = int(torch.Size(shape).numel())
        values = [3 * next(numbers) - 1.5 for _ in range(count)]
        return torch.tensor(values, dtype=torch.float64, device="cpu").view(shape)

    with torch.inference_mode(False), torch.no_grad(), _disable_current_modes():
        cell = _without_draws(cell)
        names = [c.name for c in cell.constants]
        cell = cell.with_constants(**{name: next(numbers) for name in names}) if names else cell
        dense, diagonal, bias = map(len, (cell.dense_pairs, cell.diagonal_pairs, cell.bias_gates))
        # In the order in which the digests of saved state dicts were drawn.
        wx = draw(2, 2, 1, 3, len(cell.input_gates))
        R = draw(dense, 1, 3, 3) if dense else None
        b = draw(bias, 1, 3) if bias else None
        initial_states = [draw(2, 1, 3) for _ in cell.states]
        R_diag = draw(diagonal, 1, 3) if diagonal else None
        params = [draw(1, 3) for _ in cell.params]
        zero = torch.zeros(1, 1, 1, 1, dtype=torch.float64)
        unweighted = [zero if i.name in drawn else draw(2, 2, 1, 3) for i in cell.inputs]
        inputs = ScanInputs(wx, R, b, initial_states, R_diag, params, unweighted=unweighted)
        sequences, _ = scan_reference(cell, inputs)
        # Rounded to 6 decimals and 6 significant digits; -0 becomes 0.
        values = [round(v, _DIGITS) + 0.0 for s in sequences for v in s.flatten().tolist()]
        return [f"{value:.{_DIGITS}g}" for value in values]


def _without_draws(cell: CellSpec) -> CellSpec:
    """Return a cell whose inputs are all passed, without constants that only draws read."""
    used = {leaf.name for update in cell.updates for leaf in update.free_symbols}
    inputs = tuple([given.model_copy(update={"draw": None}) for given in cell.inputs])
    constants = tuple([constant for constant in cell.constants if constant.name in used])
    return cell.model_copy(update={"inputs": inputs, "constants": constants})


def _numbers() -> Iterator[float]:
    """Yield pseudo-random numbers in (0, 1), the same on every machine."""
    state = 1
    while True:
        state = state * 48271 % 0x7FFFFFFF
        yield state / 0x7FFFFFFF
