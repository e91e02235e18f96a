"""A loop computes what the same Python loop computes: outputs, states and gradients by name."""

from __future__ import annotations

import pytest
import rnnc
import torch

LENGTHS = torch.tensor([6, 2, 0, 4])


def module(cell: rnnc.Cell, **options: object) -> rnnc.RNN:
    """A module with weights that depend on the cell's declarations alone."""
    torch.manual_seed(3)
    rnn = rnnc.RNN(cell, 5, 6, dtype=torch.float64, **options)
    for parameter in rnn.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return rnn


def found(rnn: rnnc.RNN, **call: object) -> dict[str, torch.Tensor]:
    """Outputs, last states and gradients by name."""
    torch.manual_seed(4)
    x = torch.randn(6, 4, 5, dtype=torch.float64, requires_grad=True)
    given = {n.name: torch.randn(6, 4, 6, dtype=torch.float64) for n in rnn.cell.inputs}
    inputs = {name: tensor.requires_grad_() for name, tensor in given.items()}
    y, last = rnn(x, **({"inputs": inputs} if inputs else {}), **call)
    seeds = [torch.randn(t.shape, dtype=t.dtype) for t in (y, *last)]
    torch.autograd.backward((y, *last), seeds)
    tensors = {"x": x, **inputs, **dict(rnn.named_parameters())}
    results = {"y": y, **{f"last {i}": s for i, s in enumerate(last)}}
    return results | {f"d {name}": tensor.grad for name, tensor in tensors.items()}


def compare(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(
            tensor, other[name], rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("passes", [1, 2, 5])
@pytest.mark.parametrize("name", ["neuron", "nested", "chained", "decaying", "spiking"])
def test_a_loop_is_its_python_loop(name, passes, loop_cells):
    make = loop_cells.CELLS[name]
    ours = found(module(make(rnnc.repeat, passes)))
    compare(ours, found(module(make(loop_cells.unrolled, passes), backend="reference")))
    compare(ours, found(module(make(rnnc.repeat, passes), backend="reference")))


@pytest.mark.parametrize(
    "options",
    [
        {"call": {"lengths": LENGTHS}},
        {"call": {"reset": torch.rand(6, 4, generator=torch.Generator().manual_seed(1)) < 0.3}},
        {"save": "states"},
        {"bidirectional": True, "num_layers": 2, "call": {"lengths": LENGTHS}},
        {"heads": 2, "bias": False},
    ],
    ids=["lengths", "resets", "states", "both directions", "heads"],
)
@pytest.mark.parametrize("name", ["neuron", "nested"])
def test_in_every_kind_of_call(name, options, loop_cells):
    options = dict(options)
    call = options.pop("call", {})
    ours = found(module(loop_cells.CELLS[name](rnnc.repeat, 4), **options), **call)
    twin = module(loop_cells.CELLS[name](loop_cells.unrolled, 4), backend="reference", **options)
    compare(ours, found(twin, **call))


def test_a_step_of_more_operations_than_sympy_rearranges(loop_cells, monkeypatch, tmp_path):
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))  # one that is compiled already is no news
    cell = loop_cells.long(rnnc.repeat, 2)
    with pytest.warns(RuntimeWarning, match="rnnc.repeat"):
        ours = found(module(cell))
    compare(ours, found(module(loop_cells.long(loop_cells.unrolled, 2), backend="reference")))


@pytest.mark.parametrize("passes", [700, 701])
def test_passes_between_kept_ones_run_twice(passes, loop_cells):
    """The carried values of 700 passes would take more than 2 KiB."""
    cell = loop_cells.CELLS["neuron"](rnnc.repeat, passes)
    assert "again_" in cell.cpp("float64").code
    compare(found(module(cell)), found(module(cell, backend="reference")))


def test_steps_continue_a_sequence(loop_cells):
    rnn = module(loop_cells.CELLS["nested"](rnnc.repeat, 3))
    x = torch.randn(4, 2, 5, dtype=torch.float64)
    with torch.no_grad():
        y, _ = rnn(x)
        states, steps = None, []
        for x_t in x:
            y_t, states = rnn.step(x_t, states)
            steps.append(y_t)
    torch.testing.assert_close(torch.stack(steps), y, rtol=1e-12, atol=1e-12)


def test_a_projected_output(loop_cells):
    cells = [loop_cells.decaying(loop, 3) for loop in (rnnc.repeat, loop_cells.unrolled)]
    ours, twin = (module(cell, proj_size=3) for cell in cells)
    compare(found(ours), found(twin))


def test_the_gradient_of_the_gradient(loop_cells):
    cell = loop_cells.chained(rnnc.repeat, 3)
    wx = torch.randn(1, 2, 1, 3, 2, dtype=torch.float64, requires_grad=True)
    R = torch.randn(2, 1, 3, 3, dtype=torch.float64, requires_grad=True)

    def last(wx: torch.Tensor, R: torch.Tensor) -> torch.Tensor:
        return rnnc.scan(cell, wx, R, backend="reference")[0][0]

    assert torch.autograd.gradcheck(last, (wx, R))
    assert torch.autograd.gradgradcheck(last, (wx, R))
