"""Placements respect the chip they are for, and grow with it."""

import doctest
from dataclasses import replace

import pytest
from rnnc.codegen import placement
from rnnc.codegen.limits import PRESETS, limits_of
from rnnc.codegen.placement import (
    PlacementError,
    largest_head_dim,
    largest_head_dims,
    placement_problem,
)

BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("gates", [1, 3, 4])
@pytest.mark.parametrize("limits", PRESETS, ids=lambda limits: limits.name)
def test_the_largest_is_on_chip_and_within_every_limit(limits, gates, dtype):
    found = largest_head_dim(limits, gates, dtype)
    # Counted again from the meaning of the fields, not from the constraints.
    matrix = gates * found.units * found.head_dim * BYTES[dtype]
    tiles = found.register_tiles + found.shared_tiles
    assert matrix == tiles * 1024 * found.warps
    assert found.blocks * found.units >= found.head_dim > (found.blocks - 1) * found.units
    assert found.groups * found.blocks <= limits.multiprocessors
    assert found.registers <= 255
    assert 8 * found.register_tiles < found.registers
    assert 32 * found.warps * found.registers <= limits.registers
    assert 1024 * found.shared_tiles * found.warps < found.shared <= limits.shared_per_block


@pytest.mark.parametrize("gates", [1, 3, 4])
def test_nothing_larger_fits(gates):
    limits = limits_of("RTX 3090")
    found = largest_head_dim(limits, gates)
    model = placement_problem(limits, gates)
    model.require(model["head_dim"] > found.head_dim)
    assert not model.explain().satisfiable


def test_more_room_is_never_less():
    small = limits_of("RTX 3090")
    base = largest_head_dim(small, 4).head_dim
    for more in (
        replace(small, multiprocessors=160),
        replace(small, shared_per_block=227 * 1024),
        replace(small, registers=2 * small.registers),
    ):
        assert largest_head_dim(more, 4).head_dim >= base
    assert largest_head_dim(replace(small, multiprocessors=160), 4).head_dim > base


def test_heads_and_batch_share_the_chip():
    h200 = limits_of("H200")
    alone = largest_head_dim(h200, 4).head_dim
    assert largest_head_dim(h200, 4, heads=4).head_dim < alone
    assert largest_head_dim(h200, 4, batch=256).head_dim < alone
    assert largest_head_dim(h200, 4, heads=200) is None


def test_the_prototypes_of_the_design_notes_are_feasible():
    # 1 x 768 on two batch groups of 48 blocks; 1 x 1024 on two of 64.
    for dim, blocks in ((768, 48), (1024, 64)):
        model = placement_problem(limits_of("H200"), 4, batch=16)
        model.require(model["head_dim"] == dim)
        model.require(model["blocks"] == blocks)
        model.require(model["groups"] == 2)
        assert model.solve().units == 16


def test_why_a_head_dim_does_not_fit_and_what_does():
    model = placement_problem(limits_of("A100"), 4)
    model.require(model["head_dim"] == 4096, "head dim")
    relaxed = model.relax("head dim")
    assert [move.bound for move in relaxed.moves] == [
        largest_head_dim(limits_of("A100"), 4).head_dim
    ]
    assert "head dim" in model.explain().core


def test_the_table_prints_a_row_for_each_gpu():
    lines = str(largest_head_dims()).splitlines()
    assert lines[0].split() == ["GPU", "1", "gates", "3", "gates", "4", "gates"]
    assert [line[:10].strip() for line in lines[1:]] == [limits.name for limits in PRESETS]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"gates": 0}, "gates=0"),
        ({"heads": 0}, "heads=0"),
        ({"batch": -1}, "batch=-1"),
    ],
)
def test_wrong_input(arguments, found):
    with pytest.raises(PlacementError, match=f"found:  {found}"):
        largest_head_dim(**{"limits": PRESETS[0], "gates": 4, **arguments})


def test_docstrings():
    assert doctest.testmod(placement).failed == 0
