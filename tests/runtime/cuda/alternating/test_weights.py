"""R as fragments: each lane's 16 bytes are the weights that its instruction multiplies."""

from __future__ import annotations

import math

import pytest
import rnnc
import torch
from rnnc import Gate, State, gate, sigmoid, tanh
from rnnc.codegen.cuda.alternating.plan import K_TILE, OwnProduct
from rnnc.codegen.cuda.mma import TILE_N
from rnnc.codegen.layout import layout_of
from rnnc.codegen.spaces import DenseIndex, numbers
from rnnc.runtime.cuda.alternating.products import copy_pairs, strips_backward, strips_forward

QUADS, LANES = 4, 32


def weight(R, pair, head, out, inner):
    """R[pair, head, out, inner], or the zero beyond its end."""
    dim = R.shape[-1]
    return R[pair, head, out, inner].item() if out < dim and inner < dim else 0.0


# Multiples of a chunk, of a strip, and of nothing.
@pytest.mark.parametrize("dim", [32, 40, 3])
def test_forward_strips(dim):
    R = torch.randn(3, 2, dim, dim)
    strips = strips_forward(R)
    heads, tiles, chunks, pairs = strips.shape[:4]
    assert (heads, tiles, chunks, pairs) == (2, -(-dim // TILE_N), -(-dim // K_TILE), 3)
    flat = strips.reshape(heads * tiles, chunks, pairs, LANES, 8)
    for block in range(heads * tiles):
        head, tile = divmod(block, tiles)
        for chunk, pair, lane, k in torch.cartesian_prod(
            *(torch.arange(n) for n in (chunks, pairs, LANES, 8))
        ).tolist():
            unit = tile * TILE_N + lane // QUADS
            inner = chunk * K_TILE + lane % QUADS * 8 + k
            assert flat[block, chunk, pair, lane, k] == weight(R, pair, head, unit, inner)


@pytest.mark.parametrize(("dim", "split"), [(32, 4), (40, 2), (3, 1), (24, 4)])
def test_backward_strips(dim, split):
    R = torch.randn(3, 2, dim, dim)
    own = OwnProduct(16, 8, split, (1, 1), (0, 0), overlapped=True)
    strips = strips_backward(R, own)
    heads, groups, pairs, chunks = strips.shape[:4]
    assert groups * split * TILE_N >= dim > (groups - 1) * split * TILE_N
    flat = strips.reshape(heads * groups, pairs * chunks, split, LANES, 8)
    for block in range(heads * groups):
        head, group = divmod(block, groups)
        for chunk, strip, lane, k in torch.cartesian_prod(
            *(torch.arange(n) for n in (pairs * chunks, split, LANES, 8))
        ).tolist():
            unit = (group * split + strip) * TILE_N + lane // QUADS
            gate = chunk % chunks * K_TILE + lane % QUADS * 8 + k
            wanted = weight(R, chunk // chunks, head, gate, unit)
            assert flat[block, chunk, strip, lane, k] == wanted


def test_no_copy_of_weights_that_fit():
    R = torch.randn(4, 2, 64, 64)
    own = OwnProduct(16, 8, 4, (1, 1), (0, 0), overlapped=True)
    for strips in (strips_forward(R), strips_backward(R, own)):
        assert strips.data_ptr() == R.data_ptr()


@rnnc.cell
def two_sources(
    h: State,
    c: State,
    *,
    i: Gate = gate(source=("h", "c")),
    f: Gate = gate(source=("h", "c")),
    o: Gate = gate(source="h"),
):
    """Two gates that read two states each, and one that reads one."""
    c = sigmoid(f) * c + tanh(i)
    return sigmoid(o) * tanh(c), c


@pytest.mark.parametrize("numbers", [(0,), (2,), (0, 1, 2), (1, 3, 5), (0, 1, 4), (3, 2, 0)])
def test_matrices_are_copied_without_an_index_from_the_host(numbers, monkeypatch):
    """A list as an index is copied to the GPU, which a capture refuses."""
    R = torch.randn(6, 2, 3, 3)
    wanted = R[list(numbers)].permute(1, 2, 0, 3)
    to = torch.full(wanted.shape, math.nan)
    taken = torch.Tensor.__getitem__

    def take(tensor, index):
        assert isinstance(index, int | slice)
        return taken(tensor, index)

    monkeypatch.setattr(torch.Tensor, "__getitem__", take)
    copy_pairs(numbers, R, to, 2, lambda r: r.permute(1, 2, 0, 3))
    monkeypatch.undo()
    assert torch.equal(to, wanted)


@pytest.mark.parametrize("name", ["lstm", "cornn", "scrn", "nas_cell", "two_sources"])
def test_the_matrices_of_a_source_come_in_the_order_of_its_pairs(name):
    cell = two_sources if name == "two_sources" else rnnc.cells.get(name)
    layout = layout_of(cell)
    R = torch.arange(float(len(layout.dense_gates)))[:, None, None, None].expand(-1, 1, 2, 2)
    found = []
    for source in layout.sources.space:
        to = torch.empty(layout.source_pairs[source], 1, 2, 2)
        copy_pairs(numbers(layout.matrices_of(source)), R, to, 0, lambda r: r)
        found += map(DenseIndex, to[:, 0, 0, 0].int().tolist())
    assert tuple(found) == layout.pair_matrices.values
    # By source, and within one in an order that another declaration does not change.
    assert (order := named(layout, found)) == sorted(order, key=lambda pair: pair[0])
    gates = tuple(reversed(cell.gates))
    other = layout_of(cell.model_copy(update={"gates": gates}))
    assert named(other, other.pair_matrices.values) == order


def named(layout, matrices):
    sources = [layout.dense_sources[m].number for m in matrices]
    return [*zip(sources, (layout.gates[layout.dense_gates[m]] for m in matrices), strict=True)]
