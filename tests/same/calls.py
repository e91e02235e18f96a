"""What a case calls: the public names of rnnc alone, so that any commit can run it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import rnnc
import torch
from cases import Case
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

# Gives outputs and gradients by name.
Call = Callable[[], dict[str, Tensor]]
INPUT_SIZE, STEPS_OF_STEP = 24, 5


@rnnc.cell
def keep(z: rnnc.Gate, n: rnnc.Gate, h: rnnc.State, *, keep: rnnc.Input):
    """A gated unit whose input scales its memory."""
    return keep * rnnc.sigmoid(z) * h + (1 - rnnc.sigmoid(z)) * rnnc.tanh(n)


class Made:
    """The module and the tensors of a case.

    Args:
        case: the case.
        device: "cpu" or "cuda".
    """

    def __init__(self, case: Case, device: str) -> None:
        self.case, self.device = case, device
        self.draw = torch.Generator().manual_seed(1)
        self.cell = keep if case["cell"] == "keep" else getattr(rnnc.cells, case["cell"])
        self.heads, self.dim, self.batch, self.steps = case["sizes"]
        self.hidden, route = self.heads * self.dim, case["route"]
        self.autocast = route == "autocast"
        self.dtype = torch.float32 if self.autocast else getattr(torch, case["dtype"])

    def tensor(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Return a tensor of the case's dtype, drawn on the CPU so that devices agree."""
        drawn = torch.randn(shape, generator=self.draw, dtype=torch.float64) * scale
        return drawn.to(self.device, self.dtype)

    def module(self) -> Any:
        """Return the module, with weights that devices agree on."""
        case = self.case
        rnn = self._converted() if case["route"] == "converted" else self._own()
        with torch.no_grad():
            for parameter in rnn.parameters():
                scale = parameter.shape[-1] ** -0.5 / 2 if parameter.dim() > 1 else 0.5
                parameter.copy_(self.tensor(*parameter.shape, scale=scale))
        return rnn

    def _converted(self) -> Any:
        """Return torch's module, converted."""
        case = self.case
        kind = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}[case["cell"]]
        model = nn.ModuleList(
            [
                kind(
                    *(INPUT_SIZE, self.hidden, case["layers"]),
                    batch_first=case["batch_first"],
                    dropout=case["dropout"],
                    bidirectional=case["directions"] == 2,
                    device=self.device,
                    dtype=self.dtype,
                )
            ]
        )
        rnnc.convert(model)
        return model[0]

    def _own(self) -> Any:
        """Return a module of rnnc."""
        case = self.case
        return rnnc.RNN(
            *(self.cell, INPUT_SIZE, self.hidden),
            heads=self.heads,
            num_layers=case["layers"],
            bidirectional=case["directions"] == 2,
            proj_size=case["proj_size"],
            dropout=case["dropout"],
            save=case["save"],
            layers=case["order"],
            batch_first=case["batch_first"],
            device=self.device,
            dtype=self.dtype,
        )

    def rows(self, steps: int) -> dict[str, Any]:
        """Return lengths and resets of the case, for T steps."""
        kind, device = self.case["rows"], self.device
        lengths = 1 + torch.randint(steps, (self.batch,), generator=self.draw)
        reset = torch.rand(self.batch, steps, generator=self.draw) < 0.2
        if kind == "plain":
            return {}
        if kind == "lengths":
            return {"lengths": lengths.to(device)}
        return {"reset": reset.to(device)}


def calls_of(case: Case, device: str) -> list[Call]:
    """Return the calls of a case, in their order: first, known, recorded and replayed.

    Args:
        case: the case.
        device: "cpu" or "cuda".

    Raises:
        RnncError: the package refuses the case.
    """
    made = Made(case, device)
    route = case["route"]
    if route.startswith("scan"):
        return _scans(made)
    if route in ("step", "step training", "stepper"):
        return _steps(made)
    return _sequences(made)


def _sequences(made: Made) -> list[Call]:
    """Return calls of a module over time: five of one length, one of another, and one more."""
    case, rnn = made.case, made.module()
    route = case["route"]
    features = made.heads * case["proj_size"] or made.hidden
    run = rnn
    if route == "compiled":
        run = torch.compile(rnn, backend="aot_eager", fullgraph=True)

    def call(steps: int) -> Call:
        x = made.tensor(steps, made.batch, INPUT_SIZE)
        rows, given = made.rows(steps), {}
        if not case["batch_first"] and "reset" in rows:
            rows["reset"] = rows["reset"].t()
        widths = [features, *[made.hidden] * (len(made.cell.states) - 1)]
        if case["rows"] == "reset to":
            shape = case["layers"] * case["directions"]
            rows["reset_to"] = [made.tensor(shape, width) for width in widths]
        if case["states"]:
            layers = case["layers"] * case["directions"], made.batch
            states = [made.tensor(*layers, width).abs() + 0.5 for width in widths]
            given["states"] = states
        if made.cell.inputs:
            share = made.tensor(steps, made.batch).abs().clamp(max=1)
            given["inputs"] = {"keep": share.t() if case["batch_first"] else share}
        x = x.transpose(0, 1).contiguous() if case["batch_first"] else x
        if route == "converted":
            if "states" in given:
                states = given.pop("states")
                given["hx"] = states[0] if len(states) == 1 else tuple(states)
            if rows:
                lengths = rows.pop("lengths").cpu()
                x = pack_padded_sequence(x, lengths, case["batch_first"], enforce_sorted=False)
        seed = made.tensor(steps, made.batch, features * case["directions"])
        return lambda: _over_time(made, run, rnn, x, given | rows, seed)

    long, short = call(made.steps), call(made.steps - 1)
    if route == "captured":
        return [long, _captured(long), _captured(short)]
    if route == "compiled":  # each further length is compiled for seconds
        return [long] * 3
    return [long] * 5 + [short, long]


def _over_time(
    made: Made, run: Any, rnn: Any, x: Any, given: dict[str, Any], seed: Tensor
) -> dict[str, Tensor]:
    """Call a module; return outputs and gradients."""
    route, packed = made.case["route"], isinstance(x, PackedSequence)
    torch.manual_seed(7)  # of dropout
    train = route not in ("inference", "captured")
    leaves: dict[str, Tensor] = {}
    if train:
        leaf = (x.data if packed else x).detach().requires_grad_()
        x = x._replace(data=leaf) if packed else leaf
        leaves = {"x": leaf, **dict(rnn.named_parameters())}
        if "states" in given:
            given = given | {"states": [s.detach().requires_grad_() for s in given["states"]]}
            leaves |= {f"states {i}": s for i, s in enumerate(given["states"])}
    names = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    cast = torch.autocast(made.device, names.get(made.case["dtype"], torch.bfloat16))
    with torch.set_grad_enabled(train), cast if made.autocast else nullcontext():
        y, last = run(x, **given)
    y = y.data if packed else y
    last = last if isinstance(last, tuple) else (last,)  # of torch's GRU
    found = {"y": y, **{f"last {i}": state for i, state in enumerate(last)}}
    if not train:
        return found
    outputs = [*last] if route == "last states" else [y, *last]
    seeds = [torch.ones_like(state) for state in outputs]
    if route != "last states" and not packed:
        first = seed.to(y.dtype)
        seeds[0] = first.transpose(0, 1) if made.case["batch_first"] else first
    for number in range(2 if route == "twice" else 1):
        gradients = torch.autograd.grad(
            *(outputs, list(leaves.values()), seeds),
            retain_graph=route == "twice" and not number,
            allow_unused=True,
        )
        for name, gradient in zip(leaves, gradients, strict=True):
            if gradient is not None:
                found[f"d {name}, {number}"] = gradient
    return found


def _captured(call: Call) -> Call:
    """Return a call that is captured as a CUDA graph and replayed twice."""

    def run() -> dict[str, Tensor]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = call()
        graph.replay()
        graph.replay()
        return {name: tensor.clone() for name, tensor in found.items()}

    return run


def _steps(made: Made) -> list[Call]:
    """Return calls that run a module from step to step, with a forward between them."""
    case, rnn = made.case, made.module()
    xs = [made.tensor(made.batch, INPUT_SIZE) for _ in range(STEPS_OF_STEP)]
    x = made.tensor(*_order(made, 6), INPUT_SIZE)
    share = {"keep": made.tensor(made.batch).abs().clamp(max=1)} if made.cell.inputs else {}
    given = {"inputs": share} if share else {}

    def step() -> dict[str, Tensor]:
        torch.manual_seed(0)  # of dropout, which draws the same in both trees
        states, found = None, {}
        train = case["route"] == "step training"
        leaves = [each.detach().requires_grad_(train) for each in xs]
        with torch.set_grad_enabled(train):
            for number, leaf in enumerate(leaves):
                y, states = rnn.step(leaf, states, **given)
                found[f"y {number}"] = y
        found |= {f"last {i}": state for i, state in enumerate(states)}
        if train:
            wanted = {f"x {i}": leaf for i, leaf in enumerate(leaves)} | dict(
                rnn.named_parameters()
            )
            outputs = list(found.values())
            seeds = [torch.ones_like(output) for output in outputs]
            gradients = torch.autograd.grad(outputs, [*wanted.values()], seeds, allow_unused=True)
            pairs = zip(wanted, gradients, strict=True)
            found |= {f"d {name}": d for name, d in pairs if d is not None}
        return found

    def forward() -> dict[str, Tensor]:
        steps = {"keep": next(iter(share.values())).expand(6, -1)} if share else {}
        if share and case["batch_first"]:
            steps = {name: each.t() for name, each in steps.items()}
        with torch.no_grad():
            y, _ = rnn(x, **({"inputs": steps} if steps else {}))
        return {"y": y}

    if case["route"] != "stepper":
        return [step, forward, step, step, forward, step]
    stepper = rnn.stepper(made.batch)

    def run() -> dict[str, Tensor]:
        stepper.reset()
        ys = [stepper(each, **given).clone() for each in xs]
        return {f"y {number}": y for number, y in enumerate(ys)}

    return [run, forward, run, run]


def _order(made: Made, steps: int) -> tuple[int, int]:
    return (made.batch, steps) if made.case["batch_first"] else (steps, made.batch)


def _scans(made: Made) -> list[Call]:
    """Return calls of `rnnc.scan` and `rnnc.scan_packed`."""
    case, cell = made.case, made.cell
    plane, batch, steps = (made.heads, made.dim), made.batch, made.steps
    dense, diagonal = len(cell.dense_pairs), len(cell.diagonal_pairs)
    weights = {
        "R": made.tensor(dense, *plane, made.dim, scale=made.dim**-0.5 / 2) if dense else None,
        "b": made.tensor(len(cell.bias_gates), *plane, scale=0.5) if cell.bias_gates else None,
        "R_diag": made.tensor(diagonal, *plane, scale=0.5) if diagonal else None,
    }
    weights = {name: weight for name, weight in weights.items() if weight is not None}
    packed = case["route"] == "scan_packed"
    rows = (steps + batch,) if packed else (batch, steps)
    wx = made.tensor(*rows, *plane, len(cell.input_gates))
    given: dict[str, Any] = {"save": case["save"], "reverse": case["directions"] == 2}
    if case["states"]:
        given["states"] = [made.tensor(batch, *plane).abs() + 0.5 for _ in cell.states]
    if cell.inputs:
        given["inputs"] = {"keep": made.tensor(*rows).abs().clamp(max=1)}
    if packed:
        bounds = [0, *[1 + i + steps * (i + 1) // batch for i in range(batch)]]
        given["cu_seqlens"] = torch.tensor(bounds, dtype=torch.int32)
        given["max_seqlen"] = steps + batch
        if case["rows"].startswith("reset"):
            given["reset"] = (torch.rand(rows, generator=made.draw) < 0.2).to(made.device)
    else:
        given |= made.rows(steps)
    if case["rows"] == "reset to":
        given["reset_to"] = [made.tensor(*plane) for _ in cell.states]
    function = rnnc.scan_packed if packed else rnnc.scan

    def call() -> dict[str, Tensor]:
        train = case["route"] == "scan training"
        leaves = {"wx": wx, **weights}
        leaves = {name: each.detach().requires_grad_(train) for name, each in leaves.items()}
        with torch.set_grad_enabled(train):
            over_time, last = function(cell, **leaves, **given)
        found = {f"state {i}": state for i, state in enumerate(over_time)}
        found |= {f"last {i}": state for i, state in enumerate(last)}
        if train:
            outputs = [*over_time, *last]
            seeds = [torch.ones_like(output) for output in outputs]
            gradients = torch.autograd.grad(outputs, [*leaves.values()], seeds, allow_unused=True)
            pairs = zip(leaves, gradients, strict=True)
            found |= {f"d {name}": d for name, d in pairs if d is not None}
        return found

    return [call] * 4
