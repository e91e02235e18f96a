"""Two problems of the size of a kernel's: tiles of one kernel, and both directions of a cell."""

from __future__ import annotations

from rnnc.constrint import Constraint, Model, Variable

SMS, REGISTERS, SHARED, THREADS = 132, 65536, 232448, 1024


def tile_problem(heads: int, dim: int, batch: int, gates: int) -> Model:
    """(a): where a fused forward kernel keeps the recurrent matrix, on an H200."""
    m = Model()
    tile_batch = m.int("tile_batch", [8, 16, 32])
    tile_units = m.int("tile_units", [8, 16, 32])
    unit_splits = m.int("unit_splits", 1, SMS)
    k_splits = m.int("k_splits", 1, 16)
    batch_groups = m.int("batch_groups", 1, batch)
    warps_units = m.int("warps_units", 1, 32)
    warps_k = m.int("warps_k", 1, 32)
    loops = m.int("loops", 1, 8)
    blocks = m.int("blocks", 1, SMS)
    registers = m.int("registers", 0, 224)
    shared_rows = m.int("shared_rows", 0, dim)
    shared = m.int("shared", 0, SHARED)
    threads = 32 * warps_units * warps_k
    m.require(dim == unit_splits * warps_units * loops * tile_units, "units are dealt out")
    m.require(dim % (k_splits * warps_k * 8) == 0, "k is dealt out")
    m.require(threads <= THREADS, "threads a block")
    m.require(batch_groups * tile_batch <= 2 * batch, "no empty groups")
    m.require(batch % batch_groups == 0, "groups of equal size")
    m.require(batch // batch_groups <= tile_batch, "one batch tile a block")
    m.require(blocks == heads * unit_splits * k_splits * batch_groups, "blocks")
    m.require((gates * tile_units) % 8 == 0, "granules of gates")
    m.require(shared_rows % 8 == 0, "granules of shared rows")
    m.require(
        gates * dim * dim
        == unit_splits * k_splits * (2 * threads * registers + gates * shared_rows * tile_units),
        "R is on chip",
    )
    m.require(registers + gates * tile_batch * loops // 4 + 24 <= 255, "registers a thread")
    m.require(threads * (registers + 24) <= REGISTERS, "registers a block")
    m.require(
        shared
        == 2 * gates * shared_rows * tile_units
        + 4 * warps_k * gates * tile_units * tile_batch
        + 2 * 2 * dim * tile_batch,
        "shared memory",
    )
    m.require((shared_rows == 0) | (registers >= 192), "registers first")
    m.require(registers % 8 == 0, "granules of registers")
    return m


def two_direction_problem(heads: int = 1, dim: int = 768, batch: int = 16, gates: int = 4) -> Model:
    """(b): forward and backward kernel of one shape, constants stated as constraints."""
    m = Model()
    constants = {
        "warp": 32,
        "multiprocessors": SMS,
        "threads": THREADS // 2,
        "register_file": 2 * REGISTERS,
        "shared_memory": 227000,
        "padding": 8,
        "gates": gates,
        "heads": heads,
        "dim": dim,
        "batch": batch,
        "accumulator": 4,
        "element": 2,
    }
    c = {name: m.int(name, 1, 2 * value) for name, value in constants.items()}
    for name, value in constants.items():
        m.require(c[name] == value, f"the {name} is given")
    square = m.int("square", 1, 4 * dim**2)
    m.require(square == c["dim"] ** 2, "square of the dim")
    for way in ("forward", "backward"):
        _direction(m, way, c, square)
    return m


def _direction(m: Model, way: str, c: dict[str, Variable], square: Variable) -> None:
    def var(name: str, low: object, high: int | None = None) -> Variable:
        return m.int(f"{way}_{name}", low, high)  # type: ignore[call-overload, no-any-return]

    def require(constraint: Constraint | bool, name: str) -> None:
        m.require(constraint, f"{way}: {name}")

    # Forward splits the rows by gate and sums over the hidden dim; backward the other way round.
    rows = c["gates"] * c["dim"] if way == "forward" else c["dim"] * 1
    inner = c["dim"] * 1 if way == "forward" else c["gates"] * c["dim"]
    tile_batch, tile_rows = var("tile_batch", [8, 16, 32]), var("tile_rows", [8, 16, 32])
    tile_inner = var("tile_inner", 1, 64)
    row_splits, inner_splits = var("row_splits", 1, 256), var("inner_splits", 1, 256)
    batch_blocks, head_blocks = var("batch_blocks", 1, 64), var("head_blocks", 1, 64)
    warps_inner, warps_batch = var("warps_inner", 1, 32), var("warps_batch", 1, 32)
    loops_rows, loops_batch = var("loops_rows", 1, 1024), var("loops_batch", 1, 64)
    warps, cached = var("warps", 1, 32), var("cached", 1, 1024)
    full_batch, blocks = var("full_batch", 1, 64), var("blocks", 1, 1024)
    in_registers, in_shared = var("in_registers", 1, 2**20), var("in_shared", 1, 2**30)
    sums, carried = var("sums", 1, 2**30), var("carried", 1, 2**30)
    each = var("each_head", 1, 2**32)
    accumulators, slack = var("accumulators", 1, 2**20), var("slack", 0, 1024)
    fragments, waste = var("fragments", 1, 2**20), var("waste", 0, 1024)
    launched, depth = var("launched", 1, 2**16), var("depth", 1, 1024)
    staged, rounds, lanes = var("staged", 1, 2**30), var("rounds", 1, 64), var("lanes", 1, 1024)
    require(tile_inner == 16, "inner tile")
    require(tile_batch * tile_rows == 16 * 16, "one accumulator tile a warp")
    require(loops_batch <= 4, "batch loops")
    require(full_batch == batch_blocks * warps_batch * loops_batch, "batch tiles")
    require(
        warps_inner * warps_batch * rows == warps * row_splits * loops_rows * tile_rows,
        "rows are dealt out",
    )
    require(c["dim"] % (inner_splits * warps_inner * tile_inner) == 0, "inner is dealt out")
    require(rows % (loops_rows * row_splits * tile_rows) == 0, "whole row tiles")
    require(warps * c["warp"] <= c["threads"], "threads")
    require(c["batch"] % (full_batch * tile_batch) == 0, "whole batch tiles")
    require(blocks == row_splits * inner_splits * batch_blocks * head_blocks, "number of blocks")
    require(blocks <= c["multiprocessors"], "blocks are resident")
    require(c["heads"] % head_blocks == 0, "whole heads")
    require(tile_inner * tile_rows * cached * warps == in_registers * warps_batch, "R in registers")
    require(inner_splits * cached * warps_inner * tile_inner <= inner, "no more than R is cached")
    require(accumulators == warps * tile_batch * tile_rows * loops_batch * 2, "accumulators")
    require(fragments == warps * tile_batch * tile_inner, "fragments")
    require(in_registers + accumulators + fragments <= c["register_file"], "registers")
    require(
        c["element"] * c["gates"] * batch_blocks * square
        + c["element"] * rows * c["padding"] * batch_blocks
        + 64
        == in_shared + c["element"] * in_registers * batch_blocks * row_splits * inner_splits,
        "what is not in registers is in shared memory",
    )
    require(
        sums == c["accumulator"] * warps_inner * inner_splits * full_batch * tile_batch * rows,
        "partial sums",
    )
    require(
        carried
        == c["accumulator"] * warps_inner * row_splits * inner_splits * tile_batch * c["padding"],
        "padding of the sums",
    )
    require(in_shared + sums + carried == each, "shared memory of a head")
    require(head_blocks * each <= c["shared_memory"] * blocks, "shared memory")
    require(lanes == warps * c["warp"], "lanes")
    require(launched == blocks * rounds, "blocks launched")
    require(launched * c["heads"] >= c["heads"] * blocks, "every head is served")
    require(depth * inner_splits * warps_inner * tile_inner == inner, "steps of a warp")
    require(staged == fragments * depth, "fragments a step")
    require(slack + blocks == c["multiprocessors"], "idle multiprocessors")
    require((slack <= 64) | (c["dim"] <= 2048), "most of the chip is used")
    require(waste == (full_batch * tile_batch) % c["batch"], "padding rows")
    require(rounds * head_blocks == c["heads"], "rounds over heads")
