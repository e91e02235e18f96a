"""Blocks of units, in which cells with loops run: whole ones and parts, and their vector code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc.codegen.render import Source
from rnnc.runtime.cpu.compile import CppToolchain
from rnnc.runtime.cpu.compiler import find_compiler
from torch import Tensor

#: One unit, a part of a block, whole blocks, and several with a part, whatever the processor.
WIDTHS = [1, 3, 32, 67]


@pytest.fixture(params=["neuron", "nested", "groups"])
def cell(request, loop_cells) -> rnnc.Cell:
    """One loop, nested loops, or so many passes that some run twice."""
    if request.param == "groups":
        return loop_cells.neuron(rnnc.repeat, 300)
    return loop_cells.CELLS[request.param](rnnc.repeat, 5)


def found(cell: rnnc.Cell, width: int, dtype: torch.dtype, backend: str = "cpu") -> list[Tensor]:
    """States and gradients, the units last, of units that nothing connects.

    A unit has the same numbers whatever the width.
    """
    generator = torch.Generator().manual_seed(5)

    def drawn(*shape: int) -> Tensor:
        wide = 0.5 * torch.randn(*shape, max(WIDTHS), generator=generator, dtype=torch.float64)
        return wide[..., :width].to(dtype).contiguous().requires_grad_()

    wx = drawn(2, 3, 1, len(cell.gates))
    params = {param.name: drawn(1) for param in cell.params}
    inputs = {given.name: drawn(2, 3, 1) for given in cell.inputs}
    states = [drawn(2, 1) for _ in cell.states]
    over_time, last = rnnc.scan(
        cell,
        wx.transpose(-1, -2),
        torch.zeros(len(cell.gates), 1, width, width, dtype=dtype),
        states=states,
        params=params,
        inputs=inputs or None,
        backend=backend,
    )
    leaves = [wx, *params.values(), *inputs.values(), *states]
    seeds = [drawn(*state.shape[:-1]).detach() for state in (*over_time, *last)]
    gradients = torch.autograd.grad([*over_time, *last], leaves, seeds)
    return [t.detach() for t in (*over_time, *last, *gradients)]


def test_all_widths_are_the_reference(cell, poisoned):
    for width in WIDTHS:
        ours = found(cell, width, torch.float64)
        for got, wanted in zip(ours, found(cell, width, torch.float64, "reference"), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bits_of_a_unit_do_not_depend_on_the_others(cell, dtype, poisoned):
    wide = found(cell, max(WIDTHS), dtype)
    for width in WIDTHS:
        for got, wanted in zip(found(cell, width, dtype), wide, strict=True):
            assert torch.equal(got, wanted[..., :width])


def vector_lines(source: Source, folder: Path) -> set[int]:
    """The lines of a source whose loops g++ turned into vector code."""
    (folder / "lib").mkdir()
    (folder / "cell.cpp").write_text(source.code)
    for name, text in source.headers:
        (folder / name).write_text(text)
    _, flags = CppToolchain().identity(source.plan)
    done = subprocess.run(
        [*find_compiler(), *flags, "-fopenmp-simd", "-fopt-info-vec-optimized", "-c", "cell.cpp"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    said = re.findall(r"^cell.cpp:(\d+):.*loop vectorized", done.stderr, re.MULTILINE)
    return set(map(int, said))


@pytest.mark.parametrize("name", ["neuron", "nested"])
def test_passes_are_vector_code(name, loop_cells, tmp_path):
    version = subprocess.run([find_compiler()[0], "--version"], capture_output=True, text=True)
    if "Free Software Foundation" not in version.stdout:
        pytest.skip("only g++ says which loops became vector code")
    source = loop_cells.CELLS[name](rnnc.repeat, 5).cpp("float32")
    vector = vector_lines(source, tmp_path)
    lines = source.code.splitlines()
    heads = [number for number, line in enumerate(lines, 1) if "for (int lane" in line]
    runs = [
        range(head, next(i for i in range(head, len(lines)) if lines[i].strip() == "}"))
        for head in heads
    ]
    calling = [run for run in runs if any("exp(" in lines[i] or "tanh(" in lines[i] for i in run)]
    assert len(calling) >= 3
    for run in calling:
        assert vector & {i + 1 for i in run}, lines[run[0]]
