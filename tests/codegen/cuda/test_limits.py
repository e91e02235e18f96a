"""The presets of GPUs are complete, and an unknown name is answered with known ones."""

import dataclasses
import doctest

import pytest
from rnnc.codegen.cuda import limits
from rnnc.codegen.cuda.limits import KIB, PRESETS, Limits, UnknownGpuError, limits_of

ASKED = ["A100", "H100", "H200", "B200", "RTX 3090", "RTX 4090", "RTX 5090", "L4", "L40S"]


def test_the_gpus_asked_for_are_there_once_each():
    assert [preset.name for preset in PRESETS] == ASKED


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_numbers_agree_with_the_capability(preset):
    per_multiprocessor = {(8, 0): 164, (9, 0): 228, (10, 0): 228}.get(preset.capability, 100)
    assert preset.shared_per_multiprocessor == per_multiprocessor * KIB
    # The system keeps 1 KiB of each block.
    assert preset.shared_per_block == preset.shared_per_multiprocessor - KIB
    assert preset.registers == 65536
    assert (preset.cluster > 1) == (preset.capability >= (9, 0))


def test_presets_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PRESETS[0].l2 = 0


@pytest.mark.parametrize("name", ["RTX 4090", "rtx4090", "rtx-4090", "NVIDIA RTX 4090"])
def test_names_are_found_as_people_write_them(name):
    assert limits_of(name).name == "RTX 4090"


def test_an_unknown_gpu_names_those_that_are_known():
    with pytest.raises(UnknownGpuError) as caught:
        limits_of("V100")
    assert str(caught.value) == (
        "GPU 'V100'\n"
        "  found:  no preset of this name\n"
        f"  wanted: one of {', '.join(ASKED)}\n"
        "  write:  one of these, or Limits(...) with the numbers of your GPU"
    )


def test_text_of_a_gpu_without_clusters():
    assert str(Limits("X", (8, 6), 10, 99 * KIB, 100 * KIB, 6 * KIB * KIB, 1)) == (
        "X (sm_86): 10 SMs, 64 K registers and 100 KiB shared memory each (99 KiB per block),"
        " 6 MiB L2, no clusters"
    )


def test_docstrings():
    assert doctest.testmod(limits).failed == 0
