"""Values of layers that run at the same time, whose kernels run as C++ on the CPU.

Each kernel runs to its end where it is issued, so it finds all chunks ready. What it reads too
early is NaN all the same: a chunk comes to memory when the kernel asks for it, and not before. What
it says to be stored is looked at as soon as it says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
import rnnc
import torch
from rnnc.codegen.cuda.wavefront import groups
from rnnc.runtime.cuda.wavefront import products, run, schedule

LAYERS, STEPS, CHUNK, BATCH, FEATURES = 3, 14, 4, 3, 5  # the last chunk has two steps
Told = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32)


class Watch:
    """What kernels of a group ask for and publish, with the chunks of the products between them.

    Attributes:
        asked: how often a thread asked for a chunk.
        published: the chunks of which all was said to be stored.
        early: those of them of which something was not.
        libraries: of the kernels that tell.
    """

    def __init__(self) -> None:
        self.asked = self.published = 0
        self.early: list[str] = []
        self.libraries: list[ctypes.CDLL] = []
        self.told = Told(self._told)
        self._coming: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self._group: run._Group

    def begin(self, group: run._Group) -> None:
        assert not self._coming
        self._group = group
        self.libraries.append(group._kernel.library)
        self.libraries[-1].tell(self.told)

    def multiply(self, between: products.Between, chunk: int, lane: object) -> None:
        """Multiply a chunk, and keep the result until a layer asks for it."""
        to, value = _product(between, chunk)
        behind = self._group._layers.products.index(between) + 1
        if behind == len(self._group._layers.launches):
            to.copy_(value)
        else:
            self._coming[behind, chunk] = to, value

    def _told(self, address: int, number: int) -> None:
        """Look at a counter: one that is asked for, or one with a new number."""
        group, kind = self._group, "done" if number else "ready"
        layers, count = len(group._layers.launches), len(group._layers.chunks.indices)
        first = group._counters._first // 4 + layers
        row, chunk = divmod(address // 4 - first, count)
        if kind == "ready":
            self.asked += 1
            to, value = self._coming.pop((row - layers, chunk), (None, None))
            if to is not None:  # the first thread that asks
                to.copy_(value)
        elif number == group._full["done"]:
            self.published += 1
            between = group._layers.products[row]
            if not _rows(between, chunk)[1].isfinite().all():
                self.early.append(f"layer {row}, chunk {chunk}")


def _rows(between: products.Between, chunk: int) -> list[torch.Tensor]:
    """The results of a chunk, and what is multiplied for them."""
    to, rows, matrix, _ = between._kept
    flat = to.view(-1, matrix.shape[1]), rows.view(-1, matrix.shape[0])
    return [each.split(CHUNK * BATCH)[chunk] for each in flat]


def _product(between: products.Between, chunk: int) -> tuple[torch.Tensor, torch.Tensor]:
    to, rows = _rows(between, chunk)
    return to, rows @ between._kept[2]


class Numbers:
    """What a stream does at once: all that it waits for has been issued, and has run."""

    def __init__(self, lane: int, writes: object, waits: object) -> None:
        self._writes, self._waits = writes, waits

    def __call__(self, _: object) -> None:
        for address, value in self._writes:
            ctypes.c_uint32.from_address(address).value = value
        for address, value in self._waits:
            assert ctypes.c_uint32.from_address(address).value == value


@pytest.fixture
def watch(driver, emulated_blocks, poisoned, monkeypatch) -> Iterator[Watch]:
    """What layers tell; all layers run at once, on chunks of a few steps."""
    watch, largest = Watch(), groups.wavefronts

    class Group(run._Group):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)
            watch.begin(self)

    def all_at_once(*given: object) -> object:
        alone, found = largest(*given)
        return alone, [each for each in found if max(each.groups) == LAYERS]

    monkeypatch.setattr(run, "_Group", Group)
    monkeypatch.setattr(run, "HandOver", Numbers)
    monkeypatch.setattr(run, "issue", lambda op, running: op(running))
    monkeypatch.setattr(products.Between, "multiply", lambda *given: watch.multiply(*given))
    monkeypatch.setattr(schedule, "wavefronts", all_at_once)
    monkeypatch.setattr(schedule, "chunk_steps", lambda *_: CHUNK)
    yield watch
    for library in watch.libraries:
        library.tell(None)


def found(cell, dim, backend, **options):
    """Results and gradients by name."""
    torch.manual_seed(3)
    sizes = {"num_layers": LAYERS, "backend": backend, "dtype": torch.float64}
    rnn = rnnc.RNN(cell, FEATURES, dim, **sizes, **options)
    for name, parameter in rnn.named_parameters():
        std = parameter.shape[-1] ** -0.5 if "weight_hh" in name else 0.5
        torch.nn.init.normal_(parameter, std=std)
    x = torch.randn(STEPS, BATCH, FEATURES, dtype=torch.float64)
    states = [torch.randn(LAYERS, BATCH, dim, dtype=torch.float64) for _ in cell.states]
    seeds = [torch.randn(STEPS, BATCH, dim, dtype=torch.float64), *map(torch.randn_like, states)]
    if backend == "simulated":
        rnn = rnn.float()
        x, *rest = (value.float() for value in (x, *states, *seeds))
        states, seeds = rest[: len(states)], rest[len(states) :]
    given = {"x": x, **{f"state {place}": value for place, value in enumerate(states)}}
    given = {name: value.requires_grad_() for name, value in given.items()}
    y, last = rnn(x, tuple(states) if len(states) > 1 else states[0])
    results = (y, *(last if isinstance(last, tuple) else (last,)))
    torch.autograd.backward(results, seeds)
    named = {f"result {place}": result.detach() for place, result in enumerate(results)}
    given |= dict(rnn.named_parameters())
    return named | {f"d {name}": tensor.grad for name, tensor in given.items()}


CASES = [("gru", "block"), ("norm_lstm", "block"), ("gru", "cluster"), ("lstm", "block")]
slow = pytest.mark.slow
CASES += [pytest.param(*case, marks=slow) for case in (("norm_lstm", "cluster"), ("lem", "block"))]


@pytest.mark.parametrize("save", ["gates", pytest.param("states", marks=slow)])
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_layers_at_the_same_time(name, variant, save, watch, staged_cells, emulated_blocks):
    twin = staged_cells.TWINS.get(name)
    cell, dim = rnnc.cells.get(name) if twin is None else twin[0], {"block": 24, "cluster": 40}
    options = {"variant": variant, "layers": "wavefront", "precision": "ieee", "save": save}
    got = found(cell, dim[variant], "simulated", **options)
    wanted = found(cell, dim[variant], "reference")
    for key, value in wanted.items():
        error = (got[key].double() - value).norm() / value.norm()
        assert error < 3e-5, f"{key}: {error}"  # NaN is below no bound
    assert watch.early == []
    # In each direction, of all chunks behind all layers but the last.
    assert watch.published == 2 * (LAYERS - 1) * -(-STEPS // CHUNK)
    assert watch.asked >= watch.published
    assert {plan.kind for plan in emulated_blocks if plan.wavefront} == {variant}
