"""The kernels of cluster plans, compiled: no spills, registers as planned. No GPU."""

from __future__ import annotations

import os
import re
from itertools import product

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plans_of_kind
from rnnc.codegen.cuda.source import cuda_source
from rnnc.codegen.shape import SAVES, PlanError, Shape
from rnnc.runtime.cuda import nvrtc

from ...one_stage import ONE_STAGE

ARCHS = {"sm_90a": "H200", "sm_100a": "B200", "sm_120": "RTX 5090"}
DIMS = [128, 256, 72, 192, 100, 384]
DTYPES = ["bfloat16", "float32", "float16"]
# One and several blocks a multiprocessor.
BATCHES = [16, 256]
ALL = list(product(DIMS, DTYPES, BATCHES))

pytestmark = pytest.mark.usefixtures("compiler")
full = pytest.mark.skipif(
    not os.environ.get("RNNC_SLOW"), reason="tens of minutes: make test-slow, or RNNC_SLOW=1"
)

# The best plan, and in `make test-slow` the next one.
second = pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.slow)])


def ptx_of(source, arch):
    """The PTX of both translation units."""
    return "".join(nvrtc.ptx_of(unit, arch) for unit in source.units)


def some_of(names, turn):
    """All names; those out of turn in `make test-slow`."""
    slow = pytest.mark.slow
    return [pytest.param(n, marks=slow if i % turn else ()) for i, n in enumerate(names)]


def plans_of(name, gpu, dim, dtype, batch=16, save="gates", heads=6):
    shape = Shape(heads=heads, head_dim=dim, batch=batch, dtype=dtype)
    return plans_of_kind("cluster", rnnc.cells.get(name), shape, limits_of(gpu), save)


def source_of(name, plan):
    return cuda_source(rnnc.cells.get(name), plan)


def case_of(name, arch):
    """One of `ALL` that has a plan, and one of its plans: others for each cell and architecture."""
    start = 5 * ONE_STAGE.index(name) + 7 * list(ARCHS).index(arch)
    for i in range(len(ALL)):
        dim, dtype, batch = ALL[(start + i) % len(ALL)]
        try:
            plans = plans_of(name, ARCHS[arch], dim, dtype, batch, SAVES[(start + i) % 2])
        except PlanError:
            continue
        return plans[start % min(len(plans), 8)]
    raise AssertionError(f"{name} has no cluster plan at all on {ARCHS[arch]}")


@pytest.mark.parametrize("name", some_of(ONE_STAGE, 12))
def test_kernels_compile_as_planned(name, compiles_as_planned):
    compiles_as_planned(source_of(name, case_of(name, "sm_90a")), "sm_90a")


@pytest.mark.parametrize("name", some_of(ONE_STAGE[::3], 9))
def test_kernels_compile_as_planned_on_later_gpus(name, compiles_as_planned):
    arch = ["sm_100a", "sm_120"][ONE_STAGE.index(name) // 3 % 2]
    compiles_as_planned(source_of(name, case_of(name, arch)), arch)


@pytest.mark.slow
def test_the_turns_reach_every_dim_dtype_cluster_and_split():
    plans = [case_of(name, "sm_90a") for name in ONE_STAGE]
    assert {p.forward.head_dim for p in plans} == set(DIMS)
    assert {p.dtype for p in plans} == set(DTYPES)
    assert {p.save for p in plans} == set(SAVES)
    assert {p.forward.cluster for p in plans} >= {2, 4, 8, 16}
    assert {p.forward.splits for p in plans} >= {1, 2}
    assert {p.backward.warps for p in plans} == {4, 8, 16}


@second
@pytest.mark.parametrize(
    ("heads", "dim"),
    [
        (6, 128),
        pytest.param(3, 256, marks=pytest.mark.slow),
        pytest.param(1, 512, marks=pytest.mark.slow),
    ],
)
def test_the_target_shapes_compile_as_planned(heads, dim, rank, compiles_as_planned):
    plan = plans_of("lstm", "H200", dim, "bfloat16", heads=heads)[rank]
    compiles_as_planned(source_of("lstm", plan), "sm_90a")


@rnnc.cell
def clipped(i: rnnc.Gate, f: rnnc.Gate, z: rnnc.Gate, o: rnnc.Gate, h: rnnc.State, c: rnnc.State):
    """An LSTM whose recurrent gradients are clipped: its backward waits before it maps."""
    c = rnnc.clip_gradient(rnnc.sigmoid(f) * c + rnnc.sigmoid(i) * rnnc.tanh(z), 0.1)
    return rnnc.clip_gradient(rnnc.sigmoid(o) * rnnc.tanh(c), 0.5), c


@second
@pytest.mark.parametrize(
    ("heads", "dim", "dtype"),
    [(2, 128, "bfloat16"), pytest.param(3, 256, "float32", marks=pytest.mark.slow)],
)
def test_a_backward_that_is_not_linear_compiles_as_planned(
    heads, dim, dtype, rank, compiles_as_planned
):
    shape = Shape(heads=heads, head_dim=dim, batch=16, dtype=dtype)
    plan = plans_of_kind("cluster", clipped, shape, limits_of("H200"), "gates")[rank]
    source = cuda_source(clipped, plan)
    assert "constexpr bool kLinear = false;" in source.code
    compiles_as_planned(source, "sm_90a")


def test_blocks_agree_by_what_they_push_alone():
    """A barrier of the cluster at the beginning and one at the end; no fence for data."""
    (plan, *_) = plans_of("lstm", "H200", 128, "bfloat16")
    _, *kernels = re.split(r"\.entry\s+rnnc_\w+", ptx_of(source_of("lstm", plan), "sm_90"))
    assert len(kernels) == 2
    for text in (kernel.split("\n}\n")[0] for kernel in kernels):
        assert len(re.findall(r"barrier\.cluster\.wait", text)) == 2
        assert re.findall(r"fence\.\S+|membar\S*", text) == ["fence.mbarrier_init.release.cluster;"]
        assert "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32" in text
        assert "mbarrier.try_wait.parity" in text


def test_a_cell_without_recurrent_matrices_waits_for_nobody():
    (plan, *_) = plans_of("indrnn", "H200", 128, "bfloat16")
    text = ptx_of(source_of("indrnn", plan), "sm_90")
    assert "st.async" not in text
    assert "try_wait" not in text


@full
@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ONE_STAGE)
def test_every_shape_compiles_as_planned(name, arch, compiles_as_planned):
    wrong = []
    for turn, (dim, dtype, batch) in enumerate(ALL):
        save = SAVES[(turn + ONE_STAGE.index(name)) % 2]
        try:
            plans = plans_of(name, ARCHS[arch], dim, dtype, batch, save)
        except PlanError:
            continue
        plan = plans[turn % len(plans)]
        try:
            compiles_as_planned(source_of(name, plan), arch)
        except AssertionError as error:
            wrong.append((str(plan), str(error).splitlines()[0]))
    assert not wrong, wrong
