"""Calls under `vmap`, compared with a loop of plain calls: values and gradients by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import rnnc
import torch
from rnnc.runtime.grad import functional
from torch import Tensor, func

# Gives named results of named tensors.
Run = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
Dims = Mapping[str, int | None]


@rnnc.cell
def blended(
    z: rnnc.Gate,
    h: rnnc.State,
    s: rnnc.State,
    *,
    n: rnnc.Gate = rnnc.gate(bias=False, recurrent="diagonal"),
    m: rnnc.Gate = rnnc.gate(input=False),
    keep: rnnc.Input,
    scale: rnnc.Param,
):
    """A cell with gates of all kinds, two states, an `Input` and a param."""
    new = keep * rnnc.sigmoid(z) * h + rnnc.tanh(n + m * s)
    return new, rnnc.tanh(scale * s + new)


def differentiable(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t for name, t in tensors.items() if t.is_floating_point()}


def own(tensors: Mapping[str, Tensor], dims: Dims, number: int) -> dict[str, Tensor]:
    """The tensors of one call."""
    return {
        name: t if dims[name] is None else t.select(dims[name], number)
        for name, t in tensors.items()
    }


def seeded(results: Mapping[str, Tensor]) -> Tensor:
    """A sum of results in which each number has a weight of its own."""
    return sum(
        (r * torch.linspace(-1, 2, r.numel(), dtype=r.dtype, device=r.device).view(r.shape)).sum()
        for r in results.values()
    )


def looped(run: Run, tensors: Mapping[str, Tensor], dims: Dims, size: int) -> dict[str, Tensor]:
    """Results and gradients of each call, from plain calls; gradients of shared tensors too."""
    found: list[dict[str, Tensor]] = []
    for number in range(size):
        given = {n: t.detach().clone() for n, t in own(tensors, dims, number).items()}
        leaves = {n: t.requires_grad_() for n, t in differentiable(given).items()}
        results = run(given)
        gradients = torch.autograd.grad(seeded(results), list(leaves.values()), allow_unused=True)
        pairs = zip(leaves.items(), gradients, strict=True)
        named = {f"d_{n}": torch.zeros_like(t) if d is None else d for (n, t), d in pairs}
        found.append({n: r.detach() for n, r in results.items()} | named)
    return {name: torch.stack([each[name] for each in found]) for name in found[0]}


def inside(run: Run, tensors: Mapping[str, Tensor], dims: Dims) -> dict[str, Tensor]:
    """The same by `vmap` of `grad`: gradients of each call, of shared tensors too."""
    others = {n: t for n, t in tensors.items() if n not in differentiable(tensors)}

    def loss(leaves, others):
        results = run({**leaves, **others})
        return seeded(results), results

    def one(leaves, others):
        gradients, results = func.grad(loss, has_aux=True)(leaves, others)
        return {**results, **{f"d_{name}": d for name, d in gradients.items()}}

    leaves = differentiable(tensors)
    in_dims = {n: dims[n] for n in leaves}, {n: dims[n] for n in others}
    return func.vmap(one, in_dims)(leaves, others)


def outside(
    run: Run, tensors: Mapping[str, Tensor], dims: Dims, functional_grad: bool
) -> dict[str, Tensor]:
    """The same by a gradient of `vmap`; the gradient of a shared tensor is that of all calls."""
    found = {}

    def loss(leaves):
        given = {**tensors, **leaves}
        results = func.vmap(run, ({n: dims[n] for n in tensors},))(given)
        found.update({n: r.detach() for n, r in results.items()})
        return sum(seeded({n: r[i] for n, r in results.items()}) for i in range(len(r_of(results))))

    leaves = {n: t.detach().clone() for n, t in differentiable(tensors).items()}
    if functional_grad:
        gradients = func.grad(loss)(leaves)
    else:
        leaves = {n: t.requires_grad_() for n, t in leaves.items()}
        values = torch.autograd.grad(loss(leaves), list(leaves.values()), materialize_grads=True)
        gradients = dict(zip(leaves, values, strict=True))
    return found | {f"d_{name}": d for name, d in gradients.items()}


def r_of(results: Mapping[str, Tensor]) -> Tensor:
    return next(iter(results.values()))


def close(got: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Compare by name, in units of the largest number of each tensor."""
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        bound = 1e-9 if value.dtype == torch.float64 else 3e-5
        error = (got[name] - value).abs().max() / max(value.abs().max(), 1)
        assert got[name].shape == value.shape, name
        assert error < bound, f"{name}: {error}"


def check(run: Run, tensors: Mapping[str, Tensor], dims: Dims, size: int) -> None:
    """Compare all ways with a loop."""
    wanted = looped(run, tensors, dims, size)
    for name, value in wanted.items():
        assert value.abs().max() > 0 or not name.startswith("d_"), f"{name} is zero"
    close(inside(run, tensors, dims), wanted)
    joined = {}
    for name, value in wanted.items():
        dim = dims.get(name.removeprefix("d_")) if name.startswith("d_") else 0
        joined[name] = value.sum(0) if dim is None else value.movedim(0, dim)
    for functional_grad in (False, True):
        found = outside(run, tensors, dims, functional_grad)
        close({n: r.detach() for n, r in found.items()}, joined)


@contextmanager
def counted() -> Iterator[list[str]]:
    """A list of the calls that run meanwhile."""
    seen: list[str] = []
    given = functional.call_op, functional.plain_backward

    def forward(*call: Any) -> Any:
        seen.append("forward")
        return given[0](*call)

    def backward(*call: Any) -> Any:
        seen.append("backward")
        return given[1](*call)

    functional.call_op, functional.plain_backward = forward, backward
    try:
        yield seen
    finally:
        functional.call_op, functional.plain_backward = given


def batched(tensor: Tensor, size: int, place: int) -> tuple[Tensor, int]:
    """A batch of tensors like this one, each with values of its own; its axis differs by place."""
    axis = place % (tensor.ndim + 1)
    if not tensor.is_floating_point():
        each = [tensor.roll(shift, -1) for shift in range(size)]
    else:
        each = [tensor + 0.3 * torch.randn_like(tensor) for _ in range(size)]
    return torch.stack(each, axis), axis


def mapped(
    tensors: Mapping[str, Tensor], names: Callable[[str], bool], size: int
) -> tuple[dict[str, Tensor], dict[str, int | None]]:
    """The tensors with a batch in place of each that is named, and the axes of the batch."""
    given, dims = dict(tensors), dict.fromkeys(tensors)
    for place, name in enumerate(tensors):
        if names(name):
            given[name], dims[name] = batched(tensors[name], size, place)
    return given, dims


def module_call(
    cell: Any,
    device: str,
    ragged: bool = False,
    dtype: torch.dtype = torch.float64,
    **options: Any,
) -> tuple[Run, dict[str, Tensor]]:
    """A call of a module, as a function of its tensors, and the tensors."""
    rnn = rnnc.RNN(cell, 3, 4, dtype=dtype, device=device, precision="ieee", **options)
    spec, (steps, rows) = rnn.cell, (5, 2)
    weights = {name: 0.2 * torch.randn_like(p) + p.detach() for name, p in rnn.named_parameters()}
    parts = rnn.num_layers * (1 + rnn.bidirectional)

    def draw(*size: int) -> Tensor:
        return torch.randn(size, dtype=dtype, device=device)

    tensors = {**weights, "x": draw(steps, rows, 3)}
    widths = [rnn.heads * rnn.proj_size or 4, *[4] * (len(spec.states) - 1)]
    for state, width in zip(spec.states, widths, strict=True):
        tensors[f"first_{state.name}"] = draw(parts, rows, width)
    if spec.inputs:
        tensors["input"] = draw(steps, rows)
    if ragged:
        tensors["lengths"] = torch.tensor([3, 5], device=device)
        reset = [[0, 0], [0, 1], [1, 0], [0, 1], [0, 0]]
        tensors["reset"] = torch.tensor(reset, dtype=torch.bool, device=device)
        for number, state in enumerate(spec.states):
            shape = (parts, 4) if number else (parts, rows, 4)
            tensors[f"value_{state.name}"] = draw(*shape)

    def run(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        own_weights = {name: given[name] for name in weights}
        more: dict[str, Any] = {}
        if spec.inputs:
            more["inputs"] = {spec.inputs[0].name: given["input"]}
        if ragged:
            values = [given[f"value_{s.name}"] for s in spec.states]
            more |= {"lengths": given["lengths"], "reset": given["reset"], "reset_to": values}
        states = [given[f"first_{s.name}"] for s in spec.states]
        states = states if len(states) > 1 else states[0]
        y, last = func.functional_call(rnn, own_weights, (given["x"], states), more)
        last = last if isinstance(last, tuple) else (last,)
        return {"y": y} | {f"last_{s.name}": v for s, v in zip(spec.states, last, strict=True)}

    return run, tensors


def scan_call(
    cell: Any,
    device: str,
    ragged: bool = False,
    reverse: bool = False,
    dtype: torch.dtype = torch.float64,
) -> tuple[Run, dict[str, Tensor]]:
    """A call of `rnnc.scan`, as a function of its tensors, and the tensors."""
    rows, steps, heads, dim = 2, 5, 2, 3
    plane = heads, dim

    def draw(*size: int) -> Tensor:
        return 0.7 * torch.randn(size, dtype=dtype, device=device)

    tensors = {"wx": draw(rows, steps, *plane, len(cell.input_gates))}
    if cell.dense_pairs:
        tensors["R"] = draw(len(cell.dense_pairs), *plane, dim)
    if cell.diagonal_pairs:
        tensors["R_diag"] = draw(len(cell.diagonal_pairs), *plane)
    tensors["b"] = draw(len(cell.bias_gates), *plane)
    tensors |= {f"param_{p.name}": draw(*plane) for p in cell.params}
    tensors |= {f"first_{s.name}": draw(rows, *plane) for s in cell.states}
    tensors |= {f"input_{i.name}": draw(rows, 1, heads, 1) for i in cell.inputs}
    if ragged:
        tensors["lengths"] = torch.tensor([3, 5], device=device)
        reset = [[0, 1, 0, 0, 0], [0, 0, 1, 0, 1]]
        tensors["reset"] = torch.tensor(reset, dtype=torch.bool, device=device)
        tensors |= {f"value_{s.name}": draw(*plane) for s in cell.states}

    def run(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        more: dict[str, Any] = {}
        if ragged:
            values = [given[f"value_{s.name}"] for s in cell.states]
            more = {"lengths": given["lengths"], "reset": given["reset"], "reset_to": values}
        over_time, last = rnnc.scan(
            cell,
            given["wx"],
            given.get("R"),
            given["b"],
            [given[f"first_{s.name}"] for s in cell.states],
            R_diag=given.get("R_diag"),
            params={p.name: given[f"param_{p.name}"] for p in cell.params},
            inputs={i.name: given[f"input_{i.name}"] for i in cell.inputs} or None,
            reverse=reverse,
            precision="ieee",
            **more,
        )
        found = {f"all_{s.name}": v for s, v in zip(cell.states, over_time, strict=True)}
        return found | {f"last_{s.name}": v for s, v in zip(cell.states, last, strict=True)}

    return run, tensors


def is_weight(name: str) -> bool:
    return not is_row(name)


def is_row(name: str) -> bool:
    rows = ("first", "input", "lengths", "reset", "value")
    return name in ("x", "wx") or name.startswith(rows)


MAPPED = {
    "weights": is_weight,
    "one weight": lambda name: name in ("weight_hh_l0", "weight_hd_l0", "R", "R_diag"),
    "a bias": lambda name: name in ("bias_l0", "b"),
    "rows": is_row,
    "weights and x": lambda name: is_weight(name) or name == "x",
    "x": lambda name: name in ("x", "wx"),
    "states": lambda name: name.startswith("first"),
    "lengths": lambda name: name in ("lengths", "input"),
    "resets": lambda name: name.startswith(("reset", "value")),
    "all": lambda name: True,
}
