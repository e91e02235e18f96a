"""Runs a case with rnnc: makes the cell from its text, and makes the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import rnnc
import torch
from torch import Tensor

from ..draw.tree import Case
from ..draw.write_cell import cell_text
from .by_rows import padded, reset_tensor
from .draws import drawn_names, generator_of, needs_gradient
from .tensors import is_given, lay
from .twin import Results, gradients

# The first backend traces like the second, in a second instead of half a minute.
COMPILERS = {"compiled": "aot_eager", "inductor": "inductor"}
_WEIGHTS = {"R": "weight_hh", "R_diag": "weight_hd", "b": "bias"}


def cell_of(case: Case) -> rnnc.Cell:
    """The cell of a case."""
    scope: dict[str, Any] = {"rnnc": rnnc, **{n: getattr(rnnc, n) for n in rnnc.__all__}}
    exec(compile(cell_text(case.cell), "<cell>", "exec"), scope)
    cell: rnnc.Cell = scope["drawn"]
    return rnnc.Cell.from_json(cell.to_json()) if case.json else cell


def run_ours(case: Case, values: Mapping[str, Tensor], seeds: Mapping[str, Tensor]) -> Results:
    """Outputs and gradients of the kernels, by name.

    Args:
        case: the call.
        values: the values of all tensors.
        seeds: the gradients of all outputs.
    """
    cell, dtype, views = cell_of(case), getattr(torch, case.dtype), dict(case.views)
    laid = {
        name: lay(padded(case, name, t).to(case.device, dtype), views.get(name, "plain"))
        for name, t in values.items()
    }
    leaves = {name: t.requires_grad_(needs_gradient(case, name)) for name, t in laid.items()}
    results = _scan(case, cell, leaves) if case.through == "scan" else _module(case, cell, leaves)
    moved = {
        name: lay(padded(case, name, t).to(case.device, dtype), views.get(f"d {name}", "plain"))
        for name, t in seeds.items()
    }
    found = results | gradients(case, results, leaves, moved)
    for name, tensor in values.items():
        if has_rows(name) and f"d {name}" in found:
            found[f"d {name}"] = _by_gate(found[f"d {name}"], tensor.shape)
    return {name: t.detach() for name, t in found.items()}


def _scan(case: Case, cell: rnnc.Cell, leaves: Mapping[str, Tensor]) -> Results:
    names = [s.name for s in cell.states]
    over_time, last = rnnc.scan(
        cell,
        leaves["wx"],
        leaves.get("R"),
        leaves.get("b"),
        tuple(leaves[f"states.{n}"] for n in names) if case.states else None,
        R_diag=leaves.get("R_diag"),
        params={p.name: leaves[f"params.{p.name}"] for p in cell.params},
        inputs=_inputs(case, leaves),
        generator=generator_of(case),
        backend=case.device,
        variant=case.variant,
        save=case.save,  # type: ignore[arg-type]
        precision="ieee",
        reverse=case.reverse,
        **_masks(case, leaves),
    )
    return {f"{n} over time": t for n, t in zip(names, over_time, strict=True)} | {
        f"{n} last": t for n, t in zip(names, last, strict=True)
    }


def _masks(case: Case, leaves: Mapping[str, Tensor]) -> dict[str, Any]:
    """The lengths and resets of a call, rows first."""
    found: dict[str, Any] = {}
    if case.lengths:
        found["lengths"] = torch.tensor([n for n, _ in case.rows], device=case.device)
    if case.resets:
        found["reset"] = reset_tensor(case)
    if case.reset_to != "init":
        found["reset_to"] = [leaves[f"reset_to.{s.name}"] for s in case.cell.states]
    return found


def _inputs(case: Case, leaves: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The inputs that a call is given and no weight multiplies, rows first."""
    names = [i.name for i in case.cell.inputs if f"inputs.{i.name}" not in drawn_names(case)]
    return {name: leaves[f"inputs.{name}"] for name in names} or None


def has_rows(name: str) -> bool:
    """Return True if a module keeps a tensor as rows in the order head, gate, unit."""
    kind, _, layer = name.partition(".")
    return bool(layer) and kind in ("weight_ih", *_WEIGHTS)


def rows_of(tensor: Tensor) -> Tensor:
    """A weight (gates, N, D, ...) as a module keeps it."""
    return tensor.transpose(0, 1).flatten(0, 2)


def _by_gate(rows: Tensor, shape: torch.Size) -> Tensor:
    gates, heads, *rest = shape
    return rows.reshape(heads, gates, *rest).transpose(0, 1)


def parameter_name(name: str) -> str:
    """The name that a module's parameter has: `weight_hh_l0_reverse` for `R.0_reverse`."""
    *words, layer = name.split(".")
    own = words[1] if words[0] == "params" else _WEIGHTS.get(words[0], words[0])
    return f"{own}_l{layer}"


def module_of(case: Case, cell: rnnc.Cell, leaves: Mapping[str, Tensor]) -> rnnc.RNN:
    """A module whose parameters are these tensors, so that their gradients have the same names."""
    rnn = rnnc.RNN(
        cell,
        case.input_size,
        case.heads * case.dim,
        heads=case.heads,
        num_layers=case.layers,
        bias=case.bias,
        batch_first=case.batch_first,
        bidirectional=case.both,
        backend=case.device,
        variant=case.variant,
        save=case.save,  # type: ignore[arg-type]
        precision="ieee",
        device=case.device,
        dtype=getattr(torch, case.dtype),
    )
    for name, tensor in leaves.items():
        if is_given(name):
            continue
        parameter = getattr(rnn, parameter_name(name))
        parameter.requires_grad_(tensor.requires_grad)
        with torch.no_grad():
            parameter.copy_(rows_of(tensor) if has_rows(name) else tensor)
    return rnn


def parameters_of(rnn: rnnc.RNN, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors to differentiate by: the module's own parameters, the input and the states."""
    found = {}
    for name, tensor in leaves.items():
        if is_given(name):
            found[name] = tensor
            continue
        found[name] = getattr(rnn, parameter_name(name))
    return found


def _module(case: Case, cell: rnnc.Cell, leaves: dict[str, Tensor]) -> Results:
    names = [s.name for s in cell.states]
    rnn = module_of(case, cell, leaves)
    leaves.update(parameters_of(rnn, leaves))
    states = tuple(leaves[f"states.{n}"] for n in names) if case.states else None
    x, inputs = leaves["x"], _inputs(case, leaves)
    if case.through == "step" and case.steps:
        ys = []
        for t in range(case.steps):
            now = {n: v[:, t if v.shape[1] > 1 else 0] for n, v in (inputs or {}).items()}
            y_t, states = rnn.step(x[:, t], states, inputs=now or None)
            ys.append(y_t)
        return {"y": torch.stack(ys, 1)} | {
            f"{n} last": t for n, t in zip(names, states or (), strict=True)
        }
    call: Callable[..., Any] = rnn
    if case.through in COMPILERS:
        # Without this, torch counts all modules of a process as recompilations of one.
        torch._dynamo.reset()
        call = torch.compile(rnn, fullgraph=True, backend=COMPILERS[case.through])
    masks = _masks(case, leaves)
    if inputs is not None:
        turned = {name: value.transpose(0, 1) for name, value in inputs.items()}
        masks["inputs"] = inputs if case.batch_first else turned
    if case.batch_first:
        y, last = call(x, states, **masks)
    else:
        if "reset" in masks:
            masks["reset"] = masks["reset"].t()
        if case.reset_to == "stored":
            masks["reset_to"] = [v.transpose(1, 2) for v in masks["reset_to"]]
        y, last = call(x.transpose(0, 1), states, **masks)
        y = y.transpose(0, 1)
    return {"y": y} | {f"{n} last": t for n, t in zip(names, last, strict=True)}
