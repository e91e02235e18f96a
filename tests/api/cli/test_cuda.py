"""`rnnc show --what cuda`, `rnnc plan` and `rnnc build`, on a machine without a GPU."""

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rnnc
from rnnc.cli import build as cli_build
from rnnc.runtime.cuda.driver.device import nvrtc_version
from rnnc.runtime.cuda.nvrtc import compile_cuda
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("folder")


def test_show_gives_cuda_to_the_byte(shown: Callable[..., str]) -> None:
    assert shown("show", "lstm", "--what", "cuda").rstrip() == rnnc.cells.lstm.cuda().code.rstrip()
    words = "--heads 3 --head-dim 48 --dtype float16 --gpu a100 --variant alternating".split()
    source = rnnc.cells.gru.cuda(
        heads=3, head_dim=48, dtype="float16", gpu="A100", variant="alternating"
    )
    assert shown("show", "gru", "--what", "cuda", *words).rstrip() == source.code.rstrip()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--what cpp --dtype bfloat16", "--what cpp takes float32 or float64"),
        ("--what cpp --gpu A100", "--what cpp has no GPU"),
        ("--heads 2", "--what equations has no heads"),
        ("--what latex --head-dim 2", "--what latex has no head dim"),
        ("--what json --variant block", "--what json has no variant"),
    ],
)
def test_show_refuses_options_of_another_side(
    words: str, said: str, run: Callable[..., Result]
) -> None:
    result = run("show", "lstm", *words.split())
    assert result.exit_code == 2
    assert said in result.stderr


def test_errors_of_plans_are_shown_without_a_traceback(refused: Callable[..., str]) -> None:
    assert refused("show", "lstm", "--what", "cuda", "--gpu", "H20").startswith("GPU 'H20'\n")
    assert "found:  head_dim=0\n" in refused("show", "lstm", "--what", "cuda", "--head-dim", "0")
    assert "found:  batch=0\n" in refused("plan", "lstm", "--batch", "0")
    assert "no preset of this name" in refused("plan", "lstm", "--gpu", "V100")
    assert "found:  no cell of the name 'lstn'" in refused("plan", "lstn")
    assert "  wanted: a head dim of at most " in refused(
        "plan", "lstm", "--head-dim", "1024", "--variant", "block"
    )


def test_the_plan_and_the_kernels_of_a_single_step(shown: Callable[..., str]) -> None:
    words = "--head-dim", "512", "--features", "128"
    lines = shown("plan", "lstm", *words).splitlines()
    assert lines[4].split() == ["*", "step", "-", "-", "-", "fits"]
    assert lines[6].startswith("* step (sm_90, bfloat16)")
    code = shown("show", "lstm", "--what", "cuda", *words)
    assert code.rstrip() == rnnc.cells.lstm.cuda(head_dim=512, features=128).code.rstrip()
    assert "rnnc_step_forward" in code
    assert "rnnc_step_backward" in code


def test_plan_marks_what_is_taken_and_says_what_binds(shown: Callable[..., str]) -> None:
    lines = shown("plan", "lstm", "--heads", "12", "--head-dim", "64", "--gpu", "A100").splitlines()
    assert lines[0] == "lstm, 12 x 64, batch 16, 1024 steps, bfloat16"
    assert lines[1].startswith("A100 (sm_80): 108 SMs")
    assert lines[3].split() == "estimate forward backward T = 1024".split()
    block, cluster, grid, walk, scan, alternating = lines[4:10]
    assert block.startswith("* block ")
    assert "binds: registers: " in block
    assert "does not fit: wants a GPU with clusters" in cluster
    assert grid.startswith("  grid ")
    assert walk.endswith("does not fit: wants a cell whose units read their own past alone")
    assert scan.endswith(
        "does not fit: wants a step that is affine in what it carries on, in each direction"
    )
    assert alternating.startswith("  alternating ")
    plan = rnnc.cells.lstm.cuda(heads=12, head_dim=64, gpu="A100").plan
    forward, backward = plan.nanoseconds
    assert f" {forward} ns per step  " in block
    assert f"  {(forward + backward) * 1024 / 1e6:.2f} ms  " in block
    assert "  (estimated with constants fitted on an H200)" in lines
    assert f"\n* {plan}\n" in "\n".join([*lines, ""])


def test_plan_marks_a_mixed_plan_that_is_taken(shown: Callable[..., str]) -> None:
    lines = shown("plan", "lstm", "--heads", "12", "--head-dim", "64").splitlines()
    plan = rnnc.cells.lstm.cuda(heads=12, head_dim=64).plan
    kinds = "block cluster grid walk scan alternating".split()
    assert [line.split()[0] for line in lines[4:10]] == kinds
    assert lines[10].startswith("* block+cluster ")
    forward, backward = plan.nanoseconds
    assert f" {forward} ns per step  " in lines[4]
    assert f"  {backward} ns per step  " in lines[5]
    for part in (f" {forward} ns per step  ", f"  {backward} ns per step  "):
        assert part in lines[10]
    parts = f"forward {plan.forward.estimate}, backward {plan.backward.estimate}"
    assert lines[11] == f"  * in ns: {parts}"
    assert "constants fitted on" not in "\n".join(lines)
    assert "\n".join(lines[:-2]).endswith(f"\n\n* {plan}")
    assert lines[-1] == "recurrence: dense: R_i, R_f, R_z and R_o multiply h"


def test_the_table_has_the_plan_of_the_text(shown: Callable[..., str]) -> None:
    """Here "auto" joins a forward and a backward of the grid that its own plan does not join."""
    sizes = {"heads": 1, "head_dim": 2048, "batch": 16, "gpu": "H200"}
    taken = rnnc.cells.lstm.cuda(**sizes).plan
    own = rnnc.cells.lstm.cuda(**sizes, variant="grid").plan
    assert taken.variant == own.variant == "grid"
    assert taken.nanoseconds != own.nanoseconds
    lines = shown("plan", "lstm", "--head-dim", "2048").splitlines()
    forward, backward = taken.nanoseconds
    row = f"* grid {forward} ns per step {backward} ns per step "
    assert " ".join(lines[6].split()).startswith(row)
    text = "\n".join(lines)
    assert f"; about {forward} ns per step" in text
    assert f"; about {backward} ns per step" in text


def test_plan_says_why_a_variant_does_not_fit(shown: Callable[..., str]) -> None:
    *fused, _, _, alternating = shown("plan", "lstm", "--head-dim", "16384").splitlines()[4:10]
    for variant, line in zip(("block", "cluster", "grid"), fused, strict=True):
        assert line.split()[:4] == [variant, "-", "-", "-"]
        assert "does not fit: wants a head dim of at most " in line
    assert alternating.startswith("* alternating ")
    text = shown("plan", "lstm", "--dtype", "float64")
    assert "does not fit: wants a dtype with matrix instructions: bfloat16, " in text


def test_plan_says_why_a_grid_that_streams_is_not_taken(shown: Callable[..., str]) -> None:
    text = shown("plan", "lstm", "--head-dim", "2560", "--gpu", "H200")
    grid, _, _, alternating = text.splitlines()[6:10]
    assert grid.startswith("  grid ")
    assert grid.endswith("binds: the chip does not hold all of R; auto takes an alternating plan")
    assert alternating.startswith("* alternating ")


def test_plan_takes_the_variant_that_it_is_told(shown: Callable[..., str]) -> None:
    text = shown("plan", "gru", "--variant", "alternating")
    assert "\n  block " in text
    assert "\n* alternating " in text


def test_build_reports_kernels_and_writes_files_for_other_tools(
    folder: Path, shown: Callable[..., str]
) -> None:
    text = shown("build", "elman", "--arch", "sm_80", "--head-dim", "16", "--out", "made")
    header, forward, backward, _, place = text.splitlines()
    assert header.split() == (
        "arch plan kernel registers spills shared memory matrix instructions seconds".split()
    )
    source = rnnc.cells.elman.cuda(head_dim=16, gpu="A100")
    for line, direction in ((forward, "forward"), (backward, "backward")):
        arch, kind, name, registers, spills, shared, products = line.split()[:7]
        assert (arch, kind) == ("sm_80", "block")
        assert name == f"rnnc_{direction}"
        assert 0 < int(registers) <= 255
        assert spills == "0"
        assert int(shared) == source.plan.kernels[name].shared
        assert products == "2"
    stems = [f"elman.block.{direction}.sm_80" for direction in ("forward", "backward")]
    assert place == f"made: {stems[0]}.*, {stems[1]}.* and lib/"
    made = folder / "made"
    assert [(made / f"{stem}.cu").read_text() for stem in stems] == [
        source.forward,
        source.backward,
    ]
    for path, content in source.headers:
        assert (made / path).read_text() == content
    for stem in stems:
        assert ".target sm_80" in (made / f"{stem}.ptx").read_text()
        cubin = (made / f"{stem}.cubin").read_bytes()
        assert cubin.startswith(b"\x7fELF")
        assert len(cubin) >= elf_size(cubin)


def test_build_writes_kernels_of_reversed_time_beside_the_others(
    folder: Path, shown: Callable[..., str]
) -> None:
    sizes = ("--head-dim", "16", "--arch", "sm_80", "--out", "made")
    for options in ((), ("--reverse",)):
        shown("build", "elman", *sizes, *options)
    for direction in ("forward", "backward"):
        plain, reverse = (
            (folder / f"made/elman.block.{direction}.{name}.cu").read_text()
            for name in ("sm_80", "reverse.sm_80")
        )
        assert "#define RNNC_REVERSE" in reverse
        assert "#define RNNC_REVERSE" not in plain


def test_build_compiles_what_each_direction_of_a_mixed_plan_needs(
    folder: Path, shown: Callable[..., str]
) -> None:
    words = "--arch sm_90a --heads 12 --head-dim 64 --out made".split()
    _, forward, backward, _, place = shown("build", "lstm", *words).splitlines()
    source = rnnc.cells.lstm.cuda(heads=12, head_dim=64, gpu="H100")
    assert source.plan.variant == "block+cluster"
    for line, (name, unit) in zip((forward, backward), source.kernels.items(), strict=True):
        plan, report = unit.plan, compile_cuda(unit, "sm_90a").reports[name]
        assert line.split()[:6] == [
            *("sm_90a", plan.kind, name),
            *map(str, (report.registers, report.spills, plan.shared)),
        ]
        stem = f"lstm.{plan.kind}.{plan.direction}.sm_90a"
        assert (folder / f"made/{stem}.cu").read_text() == unit.code
    assert place == "made: lstm.block.forward.sm_90a.*, lstm.cluster.backward.sm_90a.* and lib/"


def elf_size(elf: bytes) -> int:
    """How many bytes an ELF file's header promises: its tables lie at the end."""
    segments, sections = struct.unpack_from("<QQ", elf, 32)
    segment, segment_count, section, section_count = struct.unpack_from("<HHHH", elf, 54)
    return max(segments + segment * segment_count, sections + section * section_count)


def test_build_writes_nothing_where_an_architecture_is_unknown(
    folder: Path, refused: Callable[..., str]
) -> None:
    assert refused("build", "elman", "--arch", "sm_80, sm_75") == (
        "architecture 'sm_75'\n"
        "  found:  no preset of a GPU with this architecture\n"
        "  wanted: one of sm_80, sm_86, sm_89, sm_90, sm_100, sm_120,"
        " or one with a suffix, as in sm_90a\n"
        "  write:  sm_80 or sm_90a\n"
    )
    assert not list(folder.iterdir())


def test_build_needs_cupy_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    nvrtc_version.cache_clear()
    try:
        said = refused("build", "elman")
    finally:
        nvrtc_version.cache_clear()
    assert said.startswith("CUDA compiler\n  found:  ModuleNotFoundError: import of cupy halted")
    assert "  wanted: CuPy with NVRTC for CUDA " in said
    assert '  write:  pip install "rnnc[cuda' in said
    assert not list(folder.iterdir())


def test_build_says_where_it_cannot_write(folder: Path) -> None:
    (folder / "made").write_text("")
    built = cli_build._Built(rnnc.cells.elman.cuda(variant="block"), [], None, "", 0.0)
    with pytest.raises(rnnc.RnncError, match="wanted: a folder that rnnc may write to"):
        cli_build._write([built], Path("made"))
