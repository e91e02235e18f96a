"""Inputs of a call that nobody passed, drawn by torch's own operations before the call is entered.

What comes after sees tensors like those of a caller. So kernels, the reference, compilers,
captured graphs and checkpoints treat them as they treat torch's dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from ...cellspec.cell import CellSpec
from ...cellspec.errors import kind_of
from ...cellspec.noise.draw import Draw, Kind
from ...errors import TensorError
from ..call.options import check_flag
from ..call.plain import is_transformed

# Fills an empty tensor from a distribution with the numbers of its arguments.
Fill = Callable[[Kind, Sequence[float], Tensor], Tensor]
# T, B, N and D.
Rows = tuple[int, int, int, int]


class Drawing(NamedTuple):
    """Arguments of a call that say what it draws, as the caller gives them.

    Attributes:
        inputs: what is passed, by name; None for nothing.
        sample: whether the rest is drawn; else each is a single number, its mean. None for what
            a module does in training, or outside of it.
        generator: of the draws; None for torch's own.
        reset: where rows start anew, in the layout of the call; None for none.
    """

    inputs: Any
    sample: bool | None
    generator: Generator | None
    reset: Any = None


class Undrawn(NamedTuple):
    """Input that a call draws.

    In the argument `inputs` it takes the place of a tensor, until the call knows which part of it
    this rank has.
    """

    draw: Draw
    numbers: tuple[float, ...]
    generator: Generator | None


class Sizes(NamedTuple):
    """Sizes of what a module's call draws: layers times directions, heads, units per head."""

    parts: int
    heads: int
    dim: int


def cell_of_call(cell: CellSpec, inputs: Any, sample: bool | None) -> CellSpec:
    """Return the cell that a call runs: its mean where nothing is drawn, and no draw is passed."""
    if sample or not cell.drawn:
        return cell
    mean = cell.mean()
    return mean if _may_be_filled(mean, inputs) else cell


def passed(name: str, inputs: Any) -> bool:
    """Return True if the argument `inputs` has an input of the cell."""
    return isinstance(inputs, Mapping) and name in inputs


def with_draws(
    cell: CellSpec,
    drawing: Drawing,
    like: Tensor,
    shape: tuple[int, int, int, int, int],
    as_given: Callable[[Tensor], Tensor],
) -> Any:
    """Return the argument `inputs` with those that the caller left out.

    The `reset` of `drawing` is (T, B) of bool. `like` gives dtype and device, and `shape` is that
    of what is drawn, (parts, T, B, N, D), which `as_given` gives the axes of `inputs`.
    """
    inputs, sample, generator, reset = drawing
    missing = {name: draw for name, draw in cell.drawn.items() if not passed(name, inputs)}
    if not missing or not like.is_floating_point() or not _may_be_filled(cell, inputs):
        return inputs
    constants, added = cell.constant_values, dict(inputs or {})
    for name, draw in missing.items():
        if sample:
            undrawn = Undrawn(draw, draw.numbers(constants), generator)
            found = drawn(undrawn, like, shape, partial(fill, generator), reset)
        else:
            found = like.new_full((1,) * 5, draw.mean(constants))
        added[name] = as_given(found)
    return added


def _may_be_filled(cell: CellSpec, inputs: Any) -> bool:
    """Return False where a check of the call refuses the argument `inputs` as it is."""
    names = [given.name for given in cell.inputs]
    return inputs is None or (isinstance(inputs, Mapping) and all(name in names for name in inputs))


def fill(
    generator: Generator | None, kind: Kind, numbers: Sequence[float], empty: Tensor
) -> Tensor:
    """Fill a tensor by torch's operation of the name of the distribution."""
    filled: Tensor = getattr(empty, f"{kind}_")(*numbers, generator=generator)
    return filled


def draws_of_module(cell: CellSpec, drawing: Drawing, x: Tensor, axes: str, sizes: Sizes) -> Any:
    """Return the argument `inputs` of a module's call with those that the caller left out.

    The `reset` of `drawing` is in the layout of x without its last axis, whose `axes` are "TB",
    "BT", "T", "B" or "".
    """
    rows = dict(zip(axes, x.shape, strict=False))
    shape = sizes.parts, rows.get("T", 1), rows.get("B", 1), sizes.heads, sizes.dim
    reset = drawing.reset
    if isinstance(reset, Tensor):
        reset = reset.t() if axes == "BT" and reset.ndim == 2 else reset
        reset = reset.unsqueeze(1) if axes == "T" and reset.ndim == 1 else reset
    as_given = partial(_as_given, axes)
    return with_draws(cell, drawing._replace(reset=reset), x, shape, as_given)


def _as_given(axes: str, draws: Tensor) -> Tensor:
    """Return what was drawn with the axes of x: (parts, axes, N, D)."""
    if axes == "BT":
        return draws.transpose(1, 2)
    with_rows = draws if "B" in axes else draws.squeeze(2)
    return with_rows if "T" in axes else with_rows.squeeze(1)


def draws_of_scan(cell: CellSpec, wx: Any, drawing: Drawing) -> tuple[CellSpec, Any]:
    """Return the cell that a call of `rnnc.scan` runs, and its inputs with those that it draws.

    Arguments are the caller's; where wx is wrong, the checks of the call say it.
    """
    inputs, sample, generator, reset = drawing
    if not isinstance(wx, Tensor) or wx.layout != torch.strided or wx.ndim != 5:
        return cell, inputs
    check_drawing(sample, generator, wx.device)
    cell = cell_of_call(cell, inputs, sample)
    batch, steps, heads, dim, _ = wx.shape
    in_time = reset.t() if isinstance(reset, Tensor) and reset.ndim == 2 else None
    shape = steps, batch, heads, dim
    return cell, with_draws_of_scan(cell, drawing._replace(reset=in_time), wx, shape)


def with_draws_of_scan(
    cell: CellSpec, drawing: Drawing, wx: Tensor, shape: tuple[int, int, int, int]
) -> Any:
    """Return inputs of padded rows with those drawn, (B, T, N, D) each; the `reset` is (T, B)."""
    return with_draws(cell, drawing, wx, (1, *shape), lambda draws: draws[0].transpose(0, 1))


def drawn(
    undrawn: Undrawn, like: Tensor, shape: tuple[int, int, int, int, int], fill: Fill, reset: Any
) -> Tensor:
    """Draw an input of a cell.

    What is drawn once per sequence has one step, or with resets one value from each of them to the
    next, whichever direction the cell runs in: each step then reads the draw of the step where its
    part of the row begins. So nothing waits for a GPU. `fill` takes the numbers of the
    distribution's arguments. All else is as in `with_draws`.
    """
    (draw, numbers, _), (parts, steps, batch, *plane) = undrawn, shape
    once = draw.per == "sequence"
    if not isinstance(reset, Tensor) or reset.shape != (steps, batch) or reset.dtype != torch.bool:
        reset = None  # what is wrong with it, the checks of the call say
    count = 1 if once and reset is None else steps
    found = fill(draw.kind, numbers, _empty(like, (parts, count, batch, *plane)))
    if not once or reset is None or not steps:
        return found
    time = torch.arange(steps, device=like.device).unsqueeze(1)
    begun = torch.where(reset, time, 0).cummax(0).values
    return found.gather(1, begun.view(1, steps, batch, 1, 1).expand(found.shape))


def _empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor to fill.

    A compiler takes what is made of `like` for one value, and normal or uniform draws of it for
    one draw; it does not with `torch.empty`. Under `vmap` a tensor has to be made of `like`.
    """
    if torch.compiler.is_compiling() and not is_transformed((like,)):
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    return like.detach().new_empty(shape)


def check_drawing(sample: Any, generator: Any, device: torch.device) -> None:
    """Refuse a `sample` that is no bool, and a `generator` that is none on the call's device."""
    check_flag("sample", sample)
    if generator is None:
        return
    write = f"torch.Generator({str(device)!r})"
    if torch.compiler.is_compiling():
        wanted = "None under torch.compile: a graph holds no generator"
        raise TensorError("generator", kind_of(generator), wanted, "inputs={…} with what is drawn")
    if not isinstance(generator, Generator):
        raise TensorError("generator", kind_of(generator), "a torch.Generator or None", write)
    own = generator.device
    if own.type != device.type or (None not in (own.index, device.index) and own != device):
        raise TensorError("generator", f"one on {own}", f"one on {device}, as the tensors", write)


def check_step(cell: CellSpec, inputs: Any) -> None:
    """Refuse a step that would have to draw what is drawn once per sequence."""
    for name, draw in cell.drawn.items():
        if draw.per == "sequence" and not passed(name, inputs):
            raise TensorError(
                "inputs",
                f"no tensor for {name!r}, which is drawn once per sequence",
                "the same tensor in each step of a sequence, since a step does not know its own",
                f"inputs={{{name!r}: …}}, drawn ahead of the first step; or sample=False",
            )
