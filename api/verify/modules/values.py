"""The tensors of a case: weights, what calls take, and the gradients of their outputs.

They have time first and rows second, as `layout.py` says how a call takes them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ...runtime.module.rnn import RNN
from .case import Call, ModuleCase
from .cells import cell_named
from .draws import drawn_values, is_drawn

Tensors = dict[str, Tensor]


def module_of(case: ModuleCase, dtype: torch.dtype, backend: str) -> RNN:
    """Make the module of a case; its weights have no meaning yet.

    Args:
        case: the case.
        dtype: of the module.
        backend: of the module. That of the reference has time first and runs layer by layer.
    """
    ours = backend != "reference"
    rnn = RNN(
        cell_named(case.cell),
        case.input_size,
        case.hidden,
        heads=case.heads,
        num_layers=case.layers,
        bias=case.bias,
        batch_first=case.batch_first and ours,
        dropout=case.dropout,
        bidirectional=case.both,
        proj_size=case.proj_size,
        backend=backend,
        variant=case.variant if ours else "auto",
        save=case.save,  # type: ignore[arg-type]
        precision="ieee",
        layers=case.order if ours else "sequential",  # type: ignore[arg-type]
        device=case.device,
        dtype=dtype,
    )
    for number, parameter in enumerate(rnn.parameters()):
        parameter.requires_grad_(not (case.frozen and number % 2))
    return rnn


def weights_of(case: ModuleCase, rnn: RNN, version: int) -> Tensors:
    """Draw the weights of a module by name, in float64, exact in the case's dtype.

    Args:
        case: the case.
        rnn: a module of its sizes.
        version: the number of a change of the weights; 0 for the first ones.
    """
    return {
        name: _drawn(case, f"{name} {version}", parameter.shape, _scale(name, parameter))
        for name, parameter in rnn.named_parameters()
    }


def load_weights(rnn: RNN, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into the parameters of a module, in place.

    Args:
        rnn: the module.
        weights: by name.
    """
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            parameter.copy_(weights[name])


def _scale(name: str, weight: Tensor) -> float:
    # Matrices contract, so that the loop's error is a fair measure; the others are moderate.
    kind = name.rpartition("_l")[0]
    scale = {"weight_ih": 0.8, "weight_hr": 0.9, "weight_hh": 0.5, "weight_hs": 0.5}.get(kind)
    return 0.4 if scale is None else scale / weight.shape[-1] ** 0.5


def _drawn(case: ModuleCase, name: str, shape: Sequence[int], scale: float = 0.8) -> Tensor:
    """Draw values by the case's seed, a name and a shape, exact in the case's dtype.

    They are drawn where they are used: a case of a GPU may have ten million numbers.
    """
    seed, device = case.seed + zlib.crc32(name.encode()), case.device
    generator = torch.Generator(device).manual_seed(seed)
    dtype: torch.dtype = getattr(torch, case.dtype)
    values = torch.randn(*shape, generator=generator, dtype=torch.float64, device=device) * scale
    if case.cell == "slstm" and name.startswith(("states.n", "reset_to.n")):
        values = values.abs() + 1  # a normaliser, by which the output is divided
    values = values.to(dtype).double()
    if case.neighbour:
        generator.manual_seed(seed + case.neighbour)
        away = torch.randint(-1, 2, values.shape, generator=generator, device=device)
        values = (values * (1 + away * torch.finfo(dtype).eps)).to(dtype).double()
    return values


def tensors_of(case: ModuleCase, call: Call) -> tuple[Tensors, Tensors]:
    """Draw what a call takes, and the gradients of its outputs, in float64, exact in its dtype.

    Args:
        case: the case.
        call: the call.

    Returns:
        By name: x (T, B, input), `states.<name>` and, of resets to rows, `reset_to.<name>`
        (layers * directions, B, features), those of all rows without B and stored ones with T
        before B; `inputs.<name>` (T, B), with units behind them or 1 in place of a size; and
        `drawn.<name>` (layers * directions, T, B, N, D). And of each output.
    """
    taken, outputs = (
        {name: _drawn(case, f"{name} {call.values}", shape) for name, shape in shapes.items()}
        for shapes in (_shapes(case, call), output_shapes(case, call))
    )
    return taken | drawn_values(case, call), outputs


def widths_of(case: ModuleCase) -> dict[str, int]:
    """Return the features of each state."""
    first, *others = [state.name for state in cell_named(case.cell).states]
    return {first: case.width} | dict.fromkeys(others, case.hidden)


def _shapes(case: ModuleCase, call: Call) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {"x": (call.steps, call.batch, case.input_size)}
    cell = cell_named(case.cell)
    for i, given in enumerate(given for given in cell.inputs if given.name not in cell.drawn):
        found[f"inputs.{given.name}"] = {
            "rows": (call.steps, call.batch),
            "full": (call.steps, call.batch, case.hidden),
            "heads": (call.steps, call.batch, case.heads, case.dim),
            "steps": (call.steps, 1),
            "units": (1, 1, case.hidden),
        }[case.forms[i % len(case.forms)]]
    for name, width in widths_of(case).items():
        rows = (case.parts, call.batch, width)
        if call.states:
            found[f"states.{name}"] = rows
        shape = {
            "shared": (case.parts, width),
            "rows": rows,
            "stored": (case.parts, call.steps, call.batch, width),
        }.get(call.reset_to)
        if shape is not None:
            found[f"reset_to.{name}"] = shape
    return found


def output_shapes(case: ModuleCase, call: Call) -> dict[str, tuple[int, ...]]:
    """Return the shape of each output of a call, by name."""
    directions = case.parts // case.layers
    found: dict[str, tuple[int, ...]] = {"y": (call.steps, call.batch, directions * case.width)}
    for i, (name, width) in enumerate(widths_of(case).items()):
        found[f"{name} last"] = (case.parts, call.batch, width)
        if call.all_states and i:
            found[f"{name} over time"] = (call.steps, call.batch, directions * width)
    return found


def differs(case: ModuleCase, name: str, call: Call) -> bool:
    """Return whether the gradient of a tensor of a call is wanted."""
    stored = call.reset_to == "stored" and name.startswith("reset_to.")
    return call.x_gradient and not stored and (case.passed or not is_drawn(name))


def used(call: Call, outputs: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the outputs that have gradients."""
    return {
        "all": list(outputs),
        "y": ["y"],
        "last": [name for name in outputs if name.endswith(" last")],
    }[call.outputs]
