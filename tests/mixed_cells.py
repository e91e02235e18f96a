"""Cells that mix all kinds of gates, pairs and params, their permutations, and a plain loop.

Tensors have names here, not places: what a declaration's order decides is made from them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import rnnc
import torch
from rnnc.cellspec.declare import Constant, Gate, Param, State
from torch import Tensor

FUNCTIONS = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "sin": torch.sin,
    "relu": torch.relu,
}


@dataclass(frozen=True)
class Mixed:
    """A cell's declarations, of which every order is a cell."""

    name: str
    gates: tuple[Gate, ...]
    states: tuple[State, ...]
    params: tuple[Param, ...]
    constants: tuple[Constant, ...]
    updates: dict[str, str]

    def cell(self) -> rnnc.Cell:
        """The cell, in this order."""
        return rnnc.Cell(
            name=self.name,
            gates=self.gates,
            states=self.states,
            params=self.params,
            constants=self.constants,
            updates=tuple(self.updates[s.name] for s in self.states),
        )

    def shuffled(self, seed: int, states: bool = False) -> Mixed:
        """The same declarations in another order: gates, sources, params; or states, too."""
        chooser = random.Random(seed)

        def mix(values):
            return tuple(chooser.sample(values, len(values)))

        gates = tuple(g.model_copy(update={"source": mix(g.source)}) for g in mix(self.gates))
        return Mixed(
            self.name,
            gates,
            mix(self.states) if states else self.states,
            mix(self.params),
            mix(self.constants),
            self.updates,
        )


def mixed(seed: int) -> Mixed:
    """A random one."""
    chooser = random.Random(seed)
    names = ["h", "c", "n", "s", "v"][: 1 + seed % 5]
    count = chooser.randint(2, 6)
    gates = []
    for name in chooser.sample(["a", "b", "d", "e", "f", "k"], count):
        recurrent = chooser.choice([True, True, "diagonal", False])
        sources = chooser.sample(names, chooser.randint(1, len(names))) if recurrent else []
        takes = not recurrent or chooser.random() < 0.5
        bias = chooser.random() < 0.6
        gates.append(
            Gate(name=name, input=takes, recurrent=recurrent, bias=bias, source=tuple(sources))
        )
    params = [Param(name=n) for n in chooser.sample(["w", "p", "q"], chooser.randint(0, 3))]
    constants = [Constant(name="alpha", value=0.3)] if chooser.random() < 0.5 else []
    used = [d.name for d in (*gates, *params, *constants)]
    updates = {}
    for i, state in enumerate(names):
        # Every name is in some update, and a few in others too.
        own = used[i :: len(names)] + chooser.sample(used, min(2, len(used)))
        terms = [
            f"{chooser.choice(list(FUNCTIONS))}({x})*{chooser.choice(['tanh', 'sigmoid'])}"
            f"({y} - {chooser.choice(names)}*{z})"
            for x, y, z in (chooser.choices(own, k=3) for _ in range(2))
        ]
        terms += [f"tanh({x} + {0.1 * (i + 1):.1f}*{chooser.choice(names)})" for x in own]
        updates[state] = f"0.5*{state} + " + " + ".join(f"0.3*{t}" for t in terms)
    return Mixed(
        f"mixed_{seed}",
        tuple(gates),
        tuple(State(name=n) for n in names),
        tuple(params),
        tuple(constants),
        updates,
    )


def draw_named(spec: Mixed, B: int, T: int, N: int, D: int, device="cpu") -> dict[str, Tensor]:
    """Random tensors in float64 by name: shares of the input, weights, biases, params, states."""
    cell = spec.cell()

    def draw(*shape, scale=0.7):
        return (torch.randn(shape, dtype=torch.float64) * scale).to(device)

    return {
        **{f"x {g}": draw(B, T, N, D) for g in sorted(cell.input_gates)},
        **{f"b {g}": draw(N, D) for g in sorted(cell.bias_gates)},
        **{
            f"R {g}<-{s}": draw(N, D, D, scale=0.7 / D**0.5)
            for g, s in sorted((p.gate, p.source) for p in cell.dense_pairs)
        },
        **{
            f"u {g}<-{s}": draw(N, D)
            for g, s in sorted((p.gate, p.source) for p in cell.diagonal_pairs)
        },
        **{f"param {p}": draw(N, D) for p in sorted(p.name for p in cell.params)},
        **{f"state {s}": draw(B, N, D) for s in sorted(s.name for s in cell.states)},
    }


def run(spec: Mixed, named: dict[str, Tensor], seeds: dict[str, Tensor], **choice):
    """`rnnc.scan` of a declaration: outputs and the gradients of every name."""
    cell = spec.cell()
    named = {k: v.detach().requires_grad_() for k, v in named.items()}
    like = next(iter(named.values()))

    def stack(keys, axis=0):
        return torch.stack([named[k] for k in keys], axis) if keys else None

    wx = stack([f"x {g}" for g in cell.input_gates], -1)
    if wx is None:
        B, N, D = named[f"state {cell.states[0].name}"].shape
        wx = like.new_zeros(B, seeds["T"], N, D, 0)
    over_time, last = rnnc.scan(
        cell,
        wx,
        stack([f"R {p.gate}<-{p.source}" for p in cell.dense_pairs]),
        stack([f"b {g}" for g in cell.bias_gates]),
        [named[f"state {s.name}"] for s in cell.states],
        R_diag=stack([f"u {p.gate}<-{p.source}" for p in cell.diagonal_pairs]),
        params={p.name: named[f"param {p.name}"] for p in cell.params},
        **choice,
    )
    outputs = {}
    for s, sequence, end in zip(cell.states, over_time, last, strict=True):
        outputs |= {f"{s.name} over time": sequence, f"{s.name} last": end}
    return _with_gradients(dict(sorted(outputs.items())), named, seeds)


def loop(spec: Mixed, named: dict[str, Tensor], seeds: dict[str, Tensor]):
    """The same by a plain loop over time, without the tracer and the compiler."""
    named = {k: v.detach().requires_grad_() for k, v in named.items()}
    states = {s.name: named[f"state {s.name}"] for s in spec.states}
    history = {s: [] for s in states}
    for t in range(seeds["T"]):
        scope = {p.name: named[f"param {p.name}"] for p in spec.params}
        scope |= {
            c.name: torch.tensor(c.value, dtype=torch.float64) for c in spec.constants
        } | states
        for g in spec.gates:
            value = 0.0
            if g.input:
                value = value + named[f"x {g.name}"][:, t]
            for s in g.source:
                if g.recurrent == "diagonal":
                    value = value + named[f"u {g.name}<-{s}"] * states[s]
                elif g.recurrent:
                    R = named[f"R {g.name}<-{s}"]
                    value = value + torch.einsum("noi,bni->bno", R, states[s])
            scope[g.name] = value + named[f"b {g.name}"] if g.bias else value
        states = {s: eval(u, FUNCTIONS | scope) for s, u in spec.updates.items()}
        for s, value in states.items():
            history[s].append(value)
    outputs = {}
    for s, values in history.items():
        outputs |= {f"{s} over time": torch.stack(values, 1), f"{s} last": values[-1]}
    return _with_gradients(dict(sorted(outputs.items())), named, seeds)


def _with_gradients(outputs, named, seeds):
    total = sum((outputs[k] * seeds[k].to(outputs[k].dtype)).sum() for k in outputs)
    found = torch.autograd.grad(
        total, list(named.values()), allow_unused=True, materialize_grads=True
    )
    gradients = {f"d {k}": g for k, g in zip(named, found, strict=True)}
    return {k: v.detach() for k, v in (outputs | gradients).items()}


def draw_seeds(spec: Mixed, B: int, T: int, N: int, D: int, device="cpu"):
    """A random gradient of every output, and the number of steps."""
    names = sorted(s.name for s in spec.states)
    over_time = {f"{s} over time": torch.randn(B, T, N, D, device=device) for s in names}
    last = {f"{s} last": torch.randn(B, N, D, device=device) for s in names}
    return {**over_time, **last, "T": T}
