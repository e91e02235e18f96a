"""`Cell.cuda`: the text of CUDA kernels, its plan, and each direction alone, without a GPU."""

import dataclasses

import pytest
import rnnc
from rnnc.codegen.cuda.arch import limits_of_arch, matrix_instructions
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.plan import Plan
from rnnc.runtime.cuda.nvrtc import ptx_of

# One and several sources, none, diagonal weights, params, functions of the table.
CELLS = "elman lstm slstm cornn mingru indrnn fastgrnn".split()
VARIANTS = ("block", "cluster", "grid", "alternating")


def wrong(**options: object) -> str:
    with pytest.raises(rnnc.RnncError) as caught:
        rnnc.cells.lstm.cuda(**options)
    return str(caught.value)


def test_the_value_is_frozen_and_has_everything() -> None:
    source = rnnc.cells.lstm.cuda(heads=12, head_dim=64, dtype="bfloat16", gpu="A100")
    assert str(source) == source.code
    assert source.plan.variant == "block"
    assert {"lib/mma/accumulator.cuh", "lib/kernels/block_forward.cuh"} <= set(dict(source.headers))
    assert all(
        f'"{path}"' in "".join([source.code, *dict(source.headers).values()])
        for path in ("lib/copy/row_copy.cuh", "lib/kernels/block_backward.cuh")
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        source.code = ""  # type: ignore[misc]


def test_the_plan_says_sizes_estimates_and_what_binds() -> None:
    text = str(rnnc.cells.lstm.cuda(heads=12, head_dim=64, variant="block").plan)
    for part in (
        "registers per thread",
        "bytes of shared memory",
        "ns per step",
        "binds: registers",
    ):
        assert part in text


def test_another_gpu_is_a_name_or_limits() -> None:
    assert rnnc.cells.gru.cuda(gpu="rtx 4090").plan.arch == "sm_89"
    small = dataclasses.replace(limits_of("A100"), registers=16 * 1024, name="half of a half")
    assert rnnc.cells.gru.cuda(gpu=small, head_dim=32).plan.arch == "sm_80"
    assert "on half of a half\n" in wrong(gpu=small, head_dim=128, variant="block")


def test_heads_and_batch_are_no_part_of_the_text() -> None:
    sizes = ((1, 1), (3, 5), (12, 16))
    codes = {rnnc.cells.lstm.cuda(heads=n, batch=b, variant="block").code for n, b in sizes}
    assert len(codes) == 1


def test_save_decides_what_the_backward_reads() -> None:
    assert "pointwise_backward(real sigmoid_i," in rnnc.cells.lstm.cuda().backward
    assert "pointwise_backward(real i," in rnnc.cells.lstm.cuda(save="states").backward


def test_each_direction_is_a_translation_unit_of_its_own_plan() -> None:
    cell, sizes = rnnc.cells.lstm, {"heads": 12, "head_dim": 64}
    mixed, block, cluster = (cell.cuda(**sizes, variant=v) for v in ("auto", "block", "cluster"))
    assert mixed.plan == Plan(block.plan.forward, cluster.plan.backward)
    assert mixed.kernels == {
        "rnnc_forward": block.forward_unit,
        "rnnc_backward": cluster.backward_unit,
    }
    assert mixed.forward == block.forward != cluster.forward
    assert mixed.backward == cluster.backward != block.backward
    assert mixed.name == "lstm"
    assert mixed.headers == block.headers == cluster.headers
    assert str(mixed) == mixed.code == f"{block.forward}\n{cluster.backward}"
    assert {name: unit.code for name, unit in block.kernels.items()} == {
        "rnnc_forward": block.forward,
        "rnnc_backward": block.backward,
    }


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CELLS)
def test_a_direction_has_nothing_of_the_other(name: str, variant: str) -> None:
    cell = rnnc.cells.get(name)
    if variant == "grid" and not cell.dense_pairs:
        with pytest.raises(rnnc.PlanError, match="no dense recurrent matrix"):
            cell.cuda(variant=variant)
        return
    source = cell.cuda(head_dim=32, variant=variant)
    assert source.plan.variant == variant
    for direction, other in (("forward", "backward"), ("backward", "forward")):
        text = getattr(source, direction)
        for own in (f"void pointwise_{direction}(", f"\nrnnc_{direction}", f"_{direction}.cuh"):
            assert own in text
        for foreign in (f"{other}(", f"{other}_step(", f"{other}_begin(", f"k{other.title()}"):
            assert foreign not in text
        assert f"{other}.cuh" not in text
        assert text.startswith(f"// {name}")
        assert text.count("{") == text.count("}")


def test_a_direction_compiles_alone() -> None:
    source = rnnc.cells.elman.cuda(head_dim=16, gpu="A100")
    for name, unit in source.kernels.items():
        assert matrix_instructions(ptx_of(unit, "sm_80")) == {name: 2}


def test_wrong_arguments_are_named() -> None:
    assert wrong(gpu="H20") == (
        "GPU 'H20'\n  found:  no preset of this name\n"
        "  wanted: one of A100, H100, H200, B200, RTX 3090, RTX 4090, RTX 5090, L4, L40S\n"
        "  write:  one of these, or Limits(...) with the numbers of your GPU"
    )
    assert "found:  dtype='int8'\n  wanted: one of float32, " in wrong(dtype="int8")
    assert "found:  heads=0\n  wanted: a whole number, at least 1" in wrong(heads=0)
    assert "found:  head_dim=6.5\n" in wrong(head_dim=6.5)
    assert "found:  batch=True\n" in wrong(batch=True)
    for size in ("heads", "head_dim", "batch"):
        assert f"found:  {size}=2147483647\n  wanted: at most 2147482624" in wrong(
            **{size: 2**31 - 1}
        )
        assert f"found:  {size} of more than 30 digits" in wrong(**{size: 10**5000})
    assert "found:  variant='fused'\n  wanted: one of auto, block, " in wrong(variant="fused")
    assert "found:  save='all'\n  wanted: one of gates, states\n" in wrong(save="all")


def test_a_plan_that_does_not_exist_says_what_fits() -> None:
    with pytest.raises(rnnc.PlanError) as caught:
        rnnc.cells.lstm.cuda(head_dim=512, variant="block")
    largest = int(str(caught.value).partition("wanted: a head dim of at most ")[2].split()[0])
    assert rnnc.cells.lstm.cuda(head_dim=largest, variant="block").plan.variant == "block"
    assert rnnc.cells.lstm.cuda(head_dim=4096).plan.variant == "alternating"
    with pytest.raises(rnnc.UnknownGpuError):
        rnnc.cells.lstm.cuda(gpu="")


def test_architectures_have_limits() -> None:
    assert [limits_of_arch(a).name for a in "sm_80 sm_90a sm_90 sm_100f sm_120".split()] == (
        ["A100", "H100", "H100", "B200", "RTX 5090"]
    )
    for arch in ("sm_70", "sm_9", "90", "sm_90aa", ""):
        with pytest.raises(rnnc.UnknownGpuError, match="wanted: one of sm_80, sm_86, sm_89"):
            limits_of_arch(arch)


def test_matrix_instructions_are_counted_for_each_entry() -> None:
    ptx = "// mma.sync of a comment\n.entry a(\n)\n{\n\tmma.sync.aligned x;\n mma.sync y;\n}\n"
    assert matrix_instructions(ptx + ".visible .entry b()\n{\n}\n") == {"a": 2, "b": 0}
    assert matrix_instructions("") == {}
