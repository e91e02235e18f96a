"""Fixtures for all rooms: random inputs for any cell, and buffers that start as NaN."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver.device import cupy_nvrtc
from torch import Tensor

# The objects of torch, sympy and thousands of tests stay until the end: to look for cycles among
# them takes a tenth of the time.
gc.set_threshold(50_000)


def pytest_collection_finish() -> None:
    """Leave what lives until the end out of the search for cycles."""
    gc.freeze()


@dataclass
class Inputs:
    """The tensors of one `rnnc.scan` call."""

    wx: Tensor
    R: Tensor | None
    b: Tensor | None
    states: tuple[Tensor, ...]
    R_diag: Tensor | None
    params: dict[str, Tensor]
    inputs: dict[str, Tensor]

    def named(self) -> dict[str, Tensor]:
        """Every tensor by name, states and params one by one."""
        flat: dict[str, Tensor] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                flat[field.name] = value
            elif isinstance(value, tuple):
                flat |= {f"states[{i}]": s for i, s in enumerate(value)}
            elif isinstance(value, dict):
                flat |= {f"{field.name}[{k}]": v for k, v in value.items()}
        return flat

    def map(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        """The same call with every tensor changed."""
        return Inputs(
            change(self.wx),
            None if self.R is None else change(self.R),
            None if self.b is None else change(self.b),
            tuple(map(change, self.states)),
            None if self.R_diag is None else change(self.R_diag),
            {k: change(v) for k, v in self.params.items()},
            {k: change(v) for k, v in self.inputs.items()},
        )

    def scan(self, cell: rnnc.Cell, backend: str) -> dict[str, Tensor]:
        """Run the cell; every output by name."""
        over_time, last = rnnc.scan(
            cell,
            self.wx,
            self.R,
            self.b,
            self.states,
            R_diag=self.R_diag,
            params=self.params,
            inputs=self.inputs or None,
            backend=backend,
        )
        names = [s.name for s in cell.states]
        return {
            **{f"{n} over time": s for n, s in zip(names, over_time, strict=True)},
            **{f"{n} last": s for n, s in zip(names, last, strict=True)},
        }


def random_inputs(
    cell: rnnc.Cell,
    B: int,
    T: int,
    N: int,
    D: int,
    dtype: torch.dtype = torch.float64,
    requires_grad: bool = True,
) -> Inputs:
    """Fresh random tensors; recurrent matrices small enough that states stay moderate."""

    def draw(*shape: int, scale: float = 0.8) -> Tensor:
        tensor = torch.randn(shape, dtype=torch.float64) * scale
        return tensor.to(dtype).requires_grad_(requires_grad)

    def states() -> Iterator[Tensor]:
        for spec in cell.states:
            value = spec.init + draw(B, N, D).detach()
            # A normaliser is positive by construction, and a part of channels is at most all.
            if "slstm" in cell.name and spec.name == "n":
                value = value.abs() + 0.5
            if cell.name == "hodgkin_huxley" and spec.name in "mhn":
                value = value.sigmoid()
            yield value.requires_grad_(requires_grad)

    def params() -> Iterator[tuple[str, Tensor]]:
        for spec in cell.params:
            value = draw(N, D).detach()
            # A rate of decay: above 0 the states grow beyond all dtypes within a few steps.
            if cell.name == "s5" and spec.name == "alpha":
                value = -value.abs()
            yield spec.name, value.requires_grad_(requires_grad)

    dense, diagonal, bias = len(cell.dense_pairs), len(cell.diagonal_pairs), len(cell.bias_gates)
    return Inputs(
        wx=draw(B, T, N, D, len(cell.input_gates)),
        R=draw(dense, N, D, D, scale=0.8 / D**0.5) if dense else None,
        b=draw(bias, N, D) if bias else None,
        states=tuple(states()),
        R_diag=draw(diagonal, N, D) if diagonal else None,
        params=dict(params()),
        inputs={i.name: draw(B, T, N, D) for i in cell.inputs},
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line in place of two thousand skips."""
    if not torch.cuda.is_available():
        terminalreporter.write_line(
            "tests/gpu: not collected, torch.cuda.is_available() is False (make test-gpu, on a GPU)"
        )
    if os.environ.get("RNNC_WEB") != "1":
        terminalreporter.write_line("tests/web: not collected, RNNC_WEB is not 1 (make test-web)")


@pytest.fixture(autouse=True)
def _seed(request: pytest.FixtureRequest) -> None:
    """Other numbers in every test, the same ones in every run of it."""
    torch.manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def inputs_for() -> Callable[..., Inputs]:
    """`random_inputs`, as a fixture, since tests cannot import each other."""
    return random_inputs


@pytest.fixture
def poisoned() -> Iterator[None]:
    """Uninitialised memory of torch comes as NaN."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """NVRTC, which needs no GPU, with a cache folder per module; without NVRTC, its tests skip."""
    try:
        cupy_nvrtc()
    except rnnc.NoCudaError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RNNC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def new_functions() -> Iterator[None]:
    """Functions of the driver are found anew in a test, and after it."""
    forget = _module("simulated_gpu").forget_functions
    forget()
    yield
    forget()


@pytest.fixture
def simulated_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The backend `"simulated"`; gives the names of the kernels that it launches."""
    monkeypatch.setenv("RNNC_CACHE_DIR", str(tmp_path))
    with _module("simulated_gpu").simulated(monkeypatch) as launched:
        yield launched


@pytest.fixture(scope="session")
def mixed_cells() -> ModuleType:
    """`mixed_cells.py`, as a fixture, since tests cannot import each other."""
    return _module("mixed_cells")


@pytest.fixture(scope="session")
def torch_twins() -> ModuleType:
    """`torch_twins.py`, likewise."""
    return _module("torch_twins")


@pytest.fixture(scope="session")
def scan_call() -> Any:
    """`scan_call` of `operator_calls.py`."""
    return _module("operator_calls").scan_call


@pytest.fixture(scope="session")
def vmapped() -> ModuleType:
    """`vmapped.py`, likewise."""
    return _module("vmapped")


@pytest.fixture(scope="session")
def two_directions() -> ModuleType:
    """`two_directions.py`, likewise."""
    return _module("two_directions")


@pytest.fixture(scope="session")
def loop_cells() -> ModuleType:
    """`loop_cells.py`, likewise."""
    return _module("loop_cells")


@pytest.fixture(scope="session")
def staged_cells() -> ModuleType:
    """`staged_cells.py`, likewise."""
    return _module("staged_cells")


@pytest.fixture(scope="session")
def neuron_steps() -> ModuleType:
    """`neuron_steps.py`, likewise."""
    return _module("neuron_steps")


@pytest.fixture(scope="session")
def scan_steps() -> ModuleType:
    """`scan_steps.py`, likewise."""
    return _module("scan_steps")


@pytest.fixture(scope="session")
def torch_loops() -> ModuleType:
    """`torch_loops.py`, likewise."""
    return _module("torch_loops")


@pytest.fixture(scope="session")
def stage_steps() -> ModuleType:
    """`stage_steps.py`, likewise."""
    return _module("stage_steps")


@pytest.fixture(scope="session")
def ragged() -> ModuleType:
    """`ragged_loops.py`, likewise."""
    return _module("ragged_loops")


@pytest.fixture(scope="session")
def duplicates() -> ModuleType:
    """`duplicates.py`, likewise."""
    return _module("duplicates")


@pytest.fixture(scope="session")
def on_ranks() -> Callable[..., list[str]]:
    """Runs checks of `ranks` in several processes."""
    return _module("ranks/start").on_ranks


def _module(name: str) -> ModuleType:
    """A module of this folder."""
    path = Path(__file__).parent / f"{name}.py"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def emulated_gpu(
    simulated_gpu: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any
) -> Iterator[list[Any]]:
    """The backend `"simulated"`, whose single steps compute on the CPU; gives their plans."""
    folder = tmp_path_factory.getbasetemp() / "emulated"
    with _module("emulated_step").emulated(monkeypatch, folder) as plans:
        yield plans


@pytest.fixture
def emulated_blocks(
    simulated_gpu: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any
) -> Iterator[list[Any]]:
    """The backend `"simulated"`, whose block, cluster and grid plans compute on the CPU."""
    folder = tmp_path_factory.getbasetemp() / "emulated_blocks"
    with _module("emulated_blocks").emulated(monkeypatch, folder) as plans:
        yield plans


@pytest.fixture
def emulated_alternating(
    simulated_gpu: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any
) -> Iterator[list[Any]]:
    """The backend `"simulated"`, whose alternating plans compute on the CPU; gives their plans."""
    folder, step = tmp_path_factory.getbasetemp() / "emulated_alternating", _module("emulated_step")
    with _module("emulated_alternating").emulated(monkeypatch, step, folder) as plans:
        yield plans
