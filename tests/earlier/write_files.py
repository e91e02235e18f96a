"""Writes the files of this folder: what users of an earlier rnnc saved, and what it computed.

Each file is text. Its first line names the commit of rnnc and the version of torch. Then follow two
parts, each of them base64 of zlib: what was saved, and its `Record`. They are in folders by commit
and kind, which `test_earlier_files.py` reads. To make those of a commit anew:

    git archive 73a23fd --prefix build/earlier/ | tar -x
    pip install --no-deps --no-build-isolation --target build/earlier/installed build/earlier
    PYTHONPATH=build/earlier/installed python tests/earlier/write_files.py 73a23fd

73a23fd is of 23 November 2026. 68f5f67, of the day before, is the last commit that kept weights
gate by gate. 074a596, of 26 November, is the last one without loops in cells and names of values.
All were run with torch 2.11.0: a later torch reads its exported programs, too.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import rnnc
import torch
from rnnc import (
    Constant,
    Gate,
    Input,
    Param,
    State,
    clip_gradient,
    constant,
    gate,
    param,
    sigmoid,
    stop_gradient,
    tanh,
    where,
)
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.utils._pytree import tree_leaves

FOLDER = Path(__file__).parent
BY_GATE, IN_ROWS, BEFORE_LOOPS = "68f5f67", "73a23fd", "074a596"
F64 = torch.float64


class Record(NamedTuple):
    """A call of what was saved.

    Attributes:
        args: its arguments.
        options: its arguments by keyword.
        results: what came out, by name: outputs and gradients.
    """

    args: list[Tensor]
    options: dict[str, Any]
    results: dict[str, Tensor]


def write(path: Path, saved: bytes, record: Record) -> None:
    """Write a file of this folder.

    Args:
        path: of the file.
        saved: the content of what was saved.
        record: a call of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"rnnc {path.parents[1].name}, torch {torch.__version__}"]
    for content in (saved, to_bytes(record._asdict())):
        text = base64.b64encode(zlib.compress(content, 9)).decode()
        parts.append("\n".join(textwrap.wrap(text, 100)))
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def read(path: Path) -> tuple[bytes, Record]:
    """The two parts of a file of this folder.

    Args:
        path: of the file.
    """
    _, *parts = path.read_text(encoding="utf-8").split("\n\n")
    saved, record = [zlib.decompress(base64.b64decode(part)) for part in parts]
    return saved, Record(**torch.load(io.BytesIO(record)))


def to_bytes(value: Any) -> bytes:
    """What `torch.save` writes of a value."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def results_of(
    run: Callable[..., Any], record: Record, weights: Iterable[Any]
) -> dict[str, Tensor]:
    """All outputs of a call, and the gradients of its arguments and of weights, by name.

    Args:
        run: a module, or what takes its arguments.
        record: the call.
        weights: pairs of a name and a parameter.
    """
    args = [arg.clone().requires_grad_(arg.is_floating_point()) for arg in record.args]
    named = {f"argument {i}": arg for i, arg in enumerate(args) if arg.requires_grad}
    named |= dict(weights)
    outputs = tree_leaves(run(*args, **record.options))
    found = torch.autograd.grad(sum(y.sin().sum() for y in outputs), list(named.values()))
    results = {f"output {i}": y.detach() for i, y in enumerate(outputs)}
    return results | {f"gradient of {n}": d for n, d in zip(named, found, strict=True)}


@rnnc.cell
def own(
    h: State,
    c: State,
    *,
    a: Gate = gate(source="c"),
    b: Gate = gate(recurrent="diagonal"),
    d: Gate,
    w: Param = param(0.5),
):
    """Has a weight of every kind, and several gates."""
    return tanh(a + w * b * d), 0.5 * h + 0.5 * tanh(c * w)


@rnnc.cell
def unrolled(g: Gate, h: State, c: State, dt: Input, alpha: Constant = constant(0.1)):
    """Has sub-steps, powers, choices and gradients of its own."""
    for _ in range(4):
        rate = alpha * dt * tanh(g) ** 3
        c = c + rate * (1 + c**2) ** -0.5 - alpha * c
    kept = where((c > 0) & ~(h > 1), clip_gradient(c, 0.2), stop_gradient(sigmoid(h)) * g)
    return tanh(kept), c


class Scan(nn.Module):
    """A user's module around `rnnc.scan`."""

    def __init__(self) -> None:
        super().__init__()
        shapes = {"W": (3, 2, 3, 5), "R": (2, 2, 3, 3), "diagonal": (1, 2, 3), "b": (3, 2, 3)}
        for name, shape in {**shapes, "w": (2, 3)}.items():
            self.register_parameter(name, nn.Parameter(0.5 * torch.randn(shape, dtype=F64)))

    def forward(self, x: Tensor, reset: Tensor) -> Any:
        """The states of `own` at all steps, and after the last one."""
        wx = torch.einsum("gndi,bti->btndg", self.W, x)
        given = {"R_diag": self.diagonal, "params": {"w": self.w}, "reset": reset}
        return rnnc.scan(own, wx, self.R, self.b, **given)


class Step(nn.Module):
    """A user's module around a single step of `rnnc.RNN`."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = varied(rnnc.RNN(own, 5, 6, heads=2, num_layers=2, dtype=F64))

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        """The output of a step, and the states after it."""
        return self.rnn.step(x, (h, c))


class Each(nn.Sequential):
    """Runs modules on the same input."""

    def forward(self, x: Tensor) -> Any:
        """The outputs of all modules."""
        return [module(x) for module in self]


def varied(module: nn.Module) -> nn.Module:
    """A module whose weights all differ, biases and params too."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


# The modules of the state dicts, by the name of their file. The test makes them again.
STATES: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: rnnc.RNN(rnnc.cells.lstm, 3, 4, num_layers=2, dtype=F64),
    "slstm_heads": lambda: rnnc.RNN(rnnc.cells.slstm, 3, 6, heads=2, batch_first=True, dtype=F64),
    "params": lambda: rnnc.RNN(own, 3, 6, heads=2, num_layers=2, dtype=F64),
    "projected": lambda: rnnc.RNN(rnnc.cells.lstm, 3, 4, proj_size=2, num_layers=2, dtype=F64),
    "nn_gru": lambda: rnnc.nn.GRU(3, 4, num_layers=2, bidirectional=True, dtype=F64),
    "optimized": lambda: rnnc.RNN(rnnc.cells.gru, 3, 6, heads=2, dtype=F64),
    "unrolled": lambda: rnnc.RNN(unrolled, 3, 6, heads=2, num_layers=2, dtype=F64),
}
# Those of a commit, where not all of them were written.
STATES_OF = {
    BY_GATE: ["slstm_heads", "optimized"],
    IN_ROWS: [name for name in STATES if name != "unrolled"],
    BEFORE_LOOPS: ["slstm_heads", "unrolled"],
}


def exported(commit: str) -> Iterator[tuple[str, nn.Module, Record, Any]]:
    """Modules to export, an example, and which sizes may differ."""
    x = torch.randn(5, 3, 4)
    lstm = rnnc.RNN(rnnc.cells.lstm, 4, 6, heads=2, num_layers=2)
    dynamic = ({0: torch.export.Dim("steps"), 1: torch.export.Dim("batch")},)
    yield "lstm_layers", varied(lstm), Record([x], {}, {}), dynamic
    if commit == BEFORE_LOOPS:
        yield "unrolled", varied(STATES["unrolled"]()), call_of("unrolled"), None
    if commit != IN_ROWS:
        return
    x = torch.randn(4, 2, 3, dtype=F64)
    gru = rnnc.RNN(rnnc.cells.gru, 3, 4, num_layers=2, bidirectional=True, dtype=F64)
    yield "gru_both_ways", varied(gru), Record([x], {}, {}), None
    lengths = {"lengths": torch.tensor([4, 2])}
    yield "gru_lengths", varied(gru), Record([x], lengths, {}), None
    x, reset = torch.randn(2, 4, 5, dtype=F64), torch.tensor([[0, 1, 0, 0], [0, 0, 0, 1]]).bool()
    yield "own_scan", Scan(), Record([x], {"reset": reset}, {}), None
    x, *states = [torch.randn(shape, dtype=F64) for shape in ((3, 5), (2, 3, 6), (2, 3, 6))]
    yield "own_step", Step(), Record([x, *states], {}, {}), None


def pickled(commit: str) -> Iterator[tuple[str, nn.Module, Record]]:
    """Modules to pickle, each with a call."""
    if commit == BEFORE_LOOPS:
        yield "unrolled", varied(STATES["unrolled"]()), call_of("unrolled")
        return
    x = torch.randn(5, 2, 3, dtype=F64)
    gru = rnnc.RNN(rnnc.cells.gru, 3, 6, heads=2, num_layers=3, dtype=F64)
    yield "gru_layers", varied(gru), Record([x], {}, {})
    if commit == BY_GATE:
        return
    reset = torch.tensor([[0, 0], [1, 0], [0, 0], [0, 1], [0, 0]]).bool()
    both = rnnc.RNN(own, 3, 4, bidirectional=True, dtype=F64)
    yield "own_both_ways", varied(both), Record([x], {"reset": reset}, {})
    pruned = varied(rnnc.RNN(rnnc.cells.lstm, 3, 4, proj_size=2, dtype=F64))
    prune.l1_unstructured(pruned, "weight_hh_l0", 0.5)
    yield "lstm_pruned_projected", pruned, Record([x], {}, {})
    # Both take (5, 3): as a sequence of one row, and as a batch.
    for name, subclass in (("converted", True), ("converted_plain", False)):
        modules = [nn.LSTM(3, 4, 2, bidirectional=True), nn.GRU(3, 4)]
        modules += [nn.GRUCell(3, 4), nn.LSTMCell(3, 4)]
        model = varied(nn.ModuleList(modules)).double()
        report = rnnc.convert(model, isinstance=subclass, force=True)
        assert len(report.replaced) == len(modules)
        yield name, model, Record([torch.randn(5, 3, dtype=F64)], {}, {})


def call_of(name: str) -> Record:
    """A call of one of the modules of `STATES`."""
    x, dt = torch.randn(5, 2, 3, dtype=F64), torch.rand(5, 2, dtype=F64)
    return Record([x], {"inputs": {"dt": dt}} if name == "unrolled" else {}, {})


def cells() -> list[rnnc.Cell]:
    """All cells of the library, and those of this file."""
    return [*(rnnc.cells.get(name) for name in rnnc.cells.names()), own, unrolled]


def write_all(commit: str) -> None:
    """Write the files of a commit.

    Args:
        commit: of the rnnc that is imported.
    """

    def keep(kind: str, name: str, module: nn.Module, record: Record, saved: bytes) -> None:
        run = Each(*module) if isinstance(module, nn.ModuleList) else module
        # A program keeps the shapes of its weights; other gradients have those of today.
        same = commit != BY_GATE or kind == "exported"
        weights = module.named_parameters() if same else ()
        results = results_of(run, record, weights)
        write(FOLDER / commit / kind / f"{name}.txt", saved, record._replace(results=results))

    for name, module, record, dynamic in exported(commit):
        file, example = io.BytesIO(), tuple(record.args)
        program = torch.export.export(module, example, record.options, dynamic_shapes=dynamic)
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # has the paths of whoever runs this
        torch.export.save(program, file)
        if dynamic is not None:
            record = record._replace(args=[torch.randn(7, 2, 4)])
        keep("exported", name, program.module(), record, file.getvalue())
    for name in STATES_OF[commit]:
        module = varied(STATES[name]())
        record = call_of(name)
        if name == "optimized":
            keep("state", name, *optimized(module, record))
        else:
            keep("state", name, module, record, to_bytes(module.state_dict()))
    for name, module, record in pickled(commit):
        run = Each(*module) if isinstance(module, nn.ModuleList) else module
        for _ in range(3):  # a module remembers its calls
            results_of(run, record, ())
        keep("pickled", name, module, record, to_bytes(module))
    if commit == BEFORE_LOOPS:
        texts = {cell.name: [cell.to_json(), cell.fingerprint] for cell in cells()}
        write(FOLDER / commit / "json/cells.txt", json.dumps(texts).encode(), Record([], {}, {}))


def optimized(module: nn.Module, record: Record) -> tuple[nn.Module, Record, bytes]:
    """A module after another step of its optimizer than the one that was saved with it."""
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    take_step(module, optimizer, record)
    saved = to_bytes({"module": module.state_dict(), "optimizer": optimizer.state_dict()})
    take_step(module, optimizer, record)
    return module, record, saved


def take_step(module: nn.Module, optimizer: torch.optim.Optimizer, record: Record) -> None:
    """A step of an optimizer with the gradients of a call."""
    optimizer.zero_grad()
    module(*record.args)[0].sin().sum().backward()
    optimizer.step()


if __name__ == "__main__":
    if Path(rnnc.__file__).is_relative_to(FOLDER.parents[1] / "api"):
        sys.exit(f"rnnc is that of this checkout, {rnnc.__file__}: wanted one of an earlier commit")
    torch.manual_seed(0)
    write_all(sys.argv[1])
