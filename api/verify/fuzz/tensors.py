"""The tensors of a case: their values and memory layouts."""

from __future__ import annotations

import math
from itertools import product
from random import Random

import torch
from torch import Tensor

from ..draw.tree import Case
from .columns import shape_of_input
from .draws import drawn_values

VIEWS = ("transposed", "offset", "strided", "expanded", "negative")


def shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor that the call takes, by name."""
    cell, plane = case.cell, (case.heads, case.dim)
    hidden = case.heads * case.dim
    counts = {
        "R": (len(cell.pairs(True)), (*plane, case.dim)),
        "R_diag": (len(cell.pairs("diagonal")), plane),
        "b": (len(cell.bias_gates) if case.bias else 0, plane),
    }
    weights = {name: (count, *rest) for name, (count, rest) in counts.items() if count}
    weights |= {f"params.{p.name}": plane for p in cell.params}
    states = {f"states.{s.name}" for s in cell.states} if case.states else set()
    if case.through == "scan":
        wx = (case.batch, case.steps, *plane, len(cell.input_gates))
        rows = (case.batch, *plane)
        found = {"wx": wx, **weights}
        reset = {"shared": plane, "rows": rows, "stored": (case.batch, case.steps, *plane)}
    else:
        first, second = (case.batch, case.steps)
        found = {"x": (first, second, case.input_size)}
        directions = len(case.suffixes)
        for layer, suffix in product(range(case.layers), case.suffixes):
            size = directions * hidden if layer else case.input_size
            if cell.input_gates:
                found[f"weight_ih.{layer}{suffix}"] = (len(cell.input_gates), *plane, size)
            found |= {f"{name}.{layer}{suffix}": shape for name, shape in weights.items()}
        parts = directions * case.layers
        rows = (parts, case.batch, hidden)
        stored = (parts, case.batch, case.steps, hidden)
        reset = {"shared": (parts, hidden), "rows": rows, "stored": stored}
    found |= dict.fromkeys(sorted(states), rows)
    if case.reset_to != "init":
        found |= {f"reset_to.{s.name}": reset[case.reset_to] for s in cell.states}
    return found | {f"inputs.{i.name}": shape_of_input(case, i.form) for i in cell.inputs}


def is_given(name: str) -> bool:
    """Return True if a tensor is an argument of a module's call, and no weight."""
    return name == "x" or name.startswith(("states.", "reset_to.", "inputs."))


def outputs(case: Case) -> dict[str, tuple[int, ...]]:
    """The shape of each output, by name."""
    plane, names = (case.heads, case.dim), [s.name for s in case.cell.states]
    if case.through == "scan":
        found: dict[str, tuple[int, ...]] = {
            f"{n} over time": (case.batch, case.steps, *plane) for n in names
        }
        return found | {f"{n} last": (case.batch, *plane) for n in names}
    hidden, directions = case.heads * case.dim, len(case.suffixes)
    module: dict[str, tuple[int, ...]] = {"y": (case.batch, case.steps, directions * hidden)}
    last = (directions * case.layers, case.batch, hidden)
    return module | {f"{n} last": last for n in names}


def draw_values(case: Case, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Values of all tensors, and gradients of all outputs, in float64, exact in the case's dtype.

    Args:
        case: the call.
        seed: the seed of the values.
    """
    generator = torch.Generator().manual_seed(seed)
    views = dict(case.views)
    values = {}
    for name, shape in shapes(case).items():
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * _scale(case, name)
        drawn = _switched(case, name, drawn, generator)
        values[name] = _repeated(drawn, views.get(name, "plain"))
    values |= drawn_values(case)
    seeds = {
        name: _repeated(
            torch.randn(shape, generator=generator, dtype=torch.float64),
            views.get(f"d {name}", "plain"),
        )
        for name, shape in outputs(case).items()
    }
    dtype = getattr(torch, case.dtype)
    return (
        {name: t.to(dtype).double() for name, t in values.items()},
        {name: t.to(dtype).double() for name, t in seeds.items()},
    )


def neighbours(
    case: Case, tensors: dict[str, Tensor], seed: int, prefix: str = ""
) -> dict[str, Tensor]:
    """The same values, each up to one rounding of the case's dtype away; whole numbers stay.

    Args:
        case: the call.
        tensors: values, or gradients of outputs, as `draw_values` gives them.
        seed: the seed of the distances.
        prefix: the prefix of the names of their views: `d ` for gradients.
    """
    generator = torch.Generator().manual_seed(seed)
    dtype, views = getattr(torch, case.dtype), dict(case.views)
    found = {}
    for name, values in tensors.items():
        away = torch.randint(-1, 2, values.shape, generator=generator)
        moved = values * (1 + away * torch.finfo(dtype).eps)
        moved = torch.where(values == values.round(), values, moved).to(dtype).double()
        found[name] = _repeated(moved, views.get(prefix + name, "plain"))
    return found


def _scale(case: Case, name: str) -> float:
    kind = name.partition(".")[0]
    if kind == "R":
        pairs = case.cell.pairs(True)
        sources = max(sum(g == gate for g, _ in pairs) for gate, _ in pairs)
        return 0.5 / math.sqrt(case.dim * sources)
    if kind == "weight_ih":
        return 0.8 / math.sqrt(shapes(case)[name][-1])
    return {"R_diag": 0.4, "b": 0.5}.get(kind, 0.8)


def _switched(case: Case, name: str, drawn: Tensor, generator: torch.Generator) -> Tensor:
    """Whole numbers for the switches."""

    def whole(shape: torch.Size) -> Tensor:
        picks = torch.randint(4, shape, generator=generator)
        return torch.tensor([-2.0, -1.0, 1.0, 2.0], dtype=torch.float64)[picks]

    kind, _, rest = name.partition(".")
    if kind == "params":
        param = next(p for p in case.cell.params if p.name == rest.partition(".")[0])
        return whole(drawn.shape) if param.switch else drawn
    if kind == "inputs":
        given = next(i for i in case.cell.inputs if i.name == rest)
        return whole(drawn.shape) if given.switch else drawn
    if kind == "wx":
        for i, gate in enumerate(case.cell.input_gates):
            if gate.switch:
                drawn[..., i] = whole(drawn[..., i].shape)
    return drawn


def _repeated(values: Tensor, view: str) -> Tensor:
    """Values that are equal along the axis that a view with stride 0 repeats."""
    kind, _, axis = view.partition(":")
    if kind != "expanded" or not values.numel():
        return values
    return values.narrow(int(axis), 0, 1).expand_as(values).clone()


def lay(values: Tensor, view: str) -> Tensor:
    """The same values in the memory layout of a view.

    Args:
        values: contiguous.
        view: `plain`, or one of `VIEWS`; `expanded:2` repeats along the axis 2.
    """
    kind, _, axis = view.partition(":")
    if not values.numel() or not values.ndim or kind == "plain":
        return values.clone()
    if kind == "transposed":
        back = tuple(reversed(range(values.ndim)))
        return values.permute(back).contiguous().permute(back)
    if kind == "offset":
        base = values.new_full((values.shape[0] + 3, *values.shape[1:]), math.nan)
        base[2:-1] = values
        return base[2:-1]
    if kind == "strided":
        base = values.new_full((*values.shape[:-1], 2 * values.shape[-1] + 1), math.nan)
        base[..., 1::2] = values
        return base[..., 1::2]
    if kind == "expanded":
        return values.narrow(int(axis), 0, 1).clone().expand_as(values)
    if kind == "negative":
        flipped: Tensor = torch._neg_view(-values)
        return flipped
    raise ValueError(view)


def draw_view(random: Random, axes: int, through: str) -> str:
    """A view for a tensor of so many axes, in a call through `scan`, a module or a compiler."""
    kind = random.choice(VIEWS)
    if kind == "negative" and through == "inductor":
        return "offset"  # inductor reads negative views without their sign
    return f"{kind}:{random.randrange(axes)}" if kind == "expanded" else kind
