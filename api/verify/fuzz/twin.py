"""Runs a case as a plain torch loop, with the projections of a module if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..draw.tree import Case
from ..draw.write_loop import loop_text
from .by_rows import by_rows
from .columns import with_columns
from .draws import needs_gradient

Results = dict[str, Tensor]


class Edges:
    """Collects the differences of all operands of comparisons, in the order of their evaluation.

    Args:
        device: the device of the numbers.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.differences: list[Tensor] = []
        self.scales: list[Tensor] = []

    def __call__(self, a: Any, b: Any) -> Tensor:
        """Note two operands, and return their difference."""
        first, second = self._tensor(a), self._tensor(b)
        difference = first - second
        if difference.numel():
            self.differences.append(difference.detach().double())
            sizes = [x.detach().double().abs().max() for x in (first, second)]
            self.scales.append(torch.maximum(*sizes))
        return difference

    def _tensor(self, x: Any) -> Tensor:
        if isinstance(x, Tensor):
            return x
        return torch.tensor(float(x), dtype=torch.float64, device=self.device)


def loop_of(case: Case, dtype: torch.dtype) -> tuple[Callable[..., Any], Edges]:
    """The loop of a case's cell, and the object that notes its comparisons.

    Args:
        case: the call.
        dtype: the dtype of the computation. Below float64, constants are float32, as in kernels.
    """
    edges = Edges(case.device)
    numbers = "float64" if dtype == torch.float64 else "float32"
    scope: dict[str, Any] = {"torch": torch, "edge": edges, "DEVICE": case.device}
    exec(compile(loop_text(case.cell, edges=True, numbers=numbers), "<loop>", "exec"), scope)
    return scope["loop"], edges


def run_twin(
    case: Case, values: Mapping[str, Tensor], seeds: Mapping[str, Tensor], dtype: torch.dtype
) -> tuple[Results, Edges]:
    """Outputs and gradients of the loop in a dtype, by name, and the comparisons that it made.

    Args:
        case: the call.
        values: the values of all tensors.
        seeds: the gradients of all outputs.
        dtype: the dtype of the computation.
    """
    loop, edges = loop_of(case, dtype)
    leaves = {
        name: t.to(case.device, dtype).requires_grad_(needs_gradient(case, name))
        for name, t in values.items()
    }
    results = _scan(case, loop, leaves) if case.through == "scan" else _stack(case, loop, leaves)
    moved = {name: t.to(case.device, dtype) for name, t in seeds.items()}
    found = results | gradients(case, results, leaves, moved)
    return {name: t.detach() for name, t in found.items()}, edges


def gradients(
    case: Case, results: Results, leaves: Mapping[str, Tensor], seeds: Mapping[str, Tensor]
) -> Results:
    """The gradient of each tensor that needs one, `d name`."""
    asked = {n: t for n, t in leaves.items() if t.requires_grad}
    seeded = {n: t for n, t in results.items() if n not in case.silent and t.requires_grad}
    if not asked or set(case.silent) >= set(results):
        return {}
    found: Sequence[Tensor | None] = [None] * len(asked)
    if seeded:
        found = torch.autograd.grad(
            list(seeded.values()),
            list(asked.values()),
            [seeds[n] for n in seeded],
            allow_unused=True,
        )
    return {
        f"d {n}": torch.zeros_like(t) if g is None else g
        for (n, t), g in zip(asked.items(), found, strict=True)
    }


def _states(case: Case, like: Tensor) -> list[Tensor]:
    shape = (case.batch, case.heads, case.dim)
    return [like.new_full(shape, s.value) for s in case.cell.states]


def _scan(case: Case, loop: Callable[..., Any], leaves: Mapping[str, Tensor]) -> Results:
    names = [s.name for s in case.cell.states]
    wx = with_columns(case, leaves["wx"], leaves)
    states = [leaves[f"states.{n}"] for n in names] if case.states else _states(case, wx)
    params = {p.name: leaves[f"params.{p.name}"] for p in case.cell.params}
    weights = [leaves.get(w) for w in ("R", "R_diag", "b")]
    values = _reset_values(case, leaves, names, None, states)
    direction = case.reverse, case.rows, values
    over_time, last = _over_time(loop, wx, weights, params, states, *direction)
    return {f"{n} over time": t for n, t in zip(names, over_time, strict=True)} | {
        f"{n} last": t for n, t in zip(names, last, strict=True)
    }


def _stack(case: Case, loop: Callable[..., Any], leaves: Mapping[str, Tensor]) -> Results:
    """The layers of a module; each one takes the output of the one below."""
    names, x = [s.name for s in case.cell.states], leaves["x"]
    lasts: list[Sequence[Tensor]] = []
    for layer in range(case.layers):
        ys = []
        for suffix in case.suffixes:
            over_time, last = _layer(case, loop, leaves, x, len(lasts), f"{layer}{suffix}")
            ys.append(over_time[0].reshape(case.batch, case.steps, case.heads * case.dim))
            lasts.append([s.reshape(case.batch, case.heads * case.dim) for s in last])
        x = torch.cat(ys, 2)
    return {"y": x} | {
        f"{n} last": torch.stack(ts) for n, ts in zip(names, zip(*lasts, strict=True), strict=True)
    }


def _layer(
    case: Case,
    loop: Callable[..., Any],
    leaves: Mapping[str, Tensor],
    x: Tensor,
    index: int,
    name: str,
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """One direction of a layer: its states over time, and the last ones.

    Args:
        case: the call.
        loop: of the cell.
        leaves: all tensors.
        x: the layer's input.
        index: of its initial states.
        name: what the names of its weights end with, `0_reverse` for example.
    """
    weight = leaves.get(f"weight_ih.{name}")
    if weight is None:
        wx = x.new_empty(*x.shape[:2], case.heads, case.dim, 0)
    else:
        wx = torch.einsum("bti,gndi->btndg", x, weight)
    wx = with_columns(case, wx, leaves)
    states = _states(case, x)
    if case.states:
        plane = (case.batch, case.heads, case.dim)
        states = [leaves[f"states.{s.name}"][index].reshape(plane) for s in case.cell.states]
    params = {p.name: leaves[f"params.{p.name}.{name}"] for p in case.cell.params}
    weights = [leaves.get(f"{w}.{name}") for w in ("R", "R_diag", "b")]
    names = [s.name for s in case.cell.states]
    values = _reset_values(case, leaves, names, index, states)
    direction = name.endswith("_reverse"), case.rows, values
    return _over_time(loop, wx, weights, params, states, *direction)


def _reset_values(
    case: Case,
    leaves: Mapping[str, Tensor],
    names: Sequence[str],
    index: int | None,
    states: Sequence[Tensor],
) -> list[Tensor]:
    """Return what each state is reset to at each step, (B, T, N, D)."""
    shape = (case.batch, case.steps, case.heads, case.dim)
    found = []
    for name, spec, like in zip(names, case.cell.states, states, strict=True):
        if case.reset_to == "init":
            found.append(like.new_full(shape, spec.value))
            continue
        value = leaves[f"reset_to.{name}"]
        value = value if index is None else value[index]
        value = value.reshape(*value.shape[: -1 if index is not None else -2], *shape[2:])
        if case.reset_to == "stored":
            value = value.detach()  # no gradient
        elif case.reset_to == "rows":
            value = value[:, None]
        found.append(value.expand(shape))
    return found


def _over_time(
    loop: Callable[..., Any],
    wx: Tensor,
    weights: Sequence[Tensor | None],
    params: Mapping[str, Tensor],
    states: Sequence[Tensor],
    reverse: bool,
    rows: Sequence[tuple[int, tuple[int, ...]]],
    values: Sequence[Tensor],
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The loop over the steps, or over the steps from the last to the first."""

    def run(wx: Tensor, states: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        over_time, last = loop(wx.flip(1) if reverse else wx, *weights, params, states)
        return [s.flip(1) for s in over_time] if reverse else over_time, last

    found: tuple[Sequence[Tensor], Sequence[Tensor]]
    found = by_rows(run, wx, states, rows, values, reverse)
    return found
