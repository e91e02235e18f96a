"""The fuzzer finds each fault that is planted in the text of the CPU kernels."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
import rnnc
from rnnc.verify.draw.case import Settings, draw_case
from rnnc.verify.fuzz.run import run_case

_spec = importlib.util.spec_from_file_location("plant", Path(__file__).with_name("plant.py"))
plant = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(plant)

CELLS = 200  # within which a fault is found
SETTINGS = Settings(compiled=0.0, shipped=0)


@pytest.mark.parametrize("fault", plant.CUDA)
def test_a_fault_has_its_place_in_the_text_of_cuda_kernels(fault):
    file, edit = plant.CUDA[fault]
    units = rnnc.cells.lstm.cuda(heads=1, head_dim=24, dtype="float32", variant="block").units
    texts = [unit.code for unit in units]
    if file:
        texts = [text for name, text in units[0].headers if name.endswith(f"/{file}")]
    assert any(edit(text) != text for text in texts)


@pytest.mark.parametrize("fault", plant.CPU)
def test_a_fault_has_its_place_in_the_text_of_cpu_kernels(fault):
    file, edit = plant.CPU[fault]
    source = rnnc.cells.lstm.cpp("float32")
    text = next(text for name, text in (("", source.code), *source.headers) if name.endswith(file))
    assert edit(text) != text


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("RNNC_SLOW"), reason="minutes: make test-slow")
@pytest.mark.parametrize("fault", plant.FAULTS)
def test_a_planted_fault_is_found(fault, tmp_path):
    with plant.planted(fault, "cpu", str(tmp_path / "faulty")):
        found = next((n for n in range(CELLS) if _is_wrong(n)), None)
    assert found is not None, f"{fault}: not found within {CELLS} cells"
    print(f"{fault}: found by cell {found + 1}")
    # It is the fault that was found: without it the case is right.
    assert not _is_wrong(found)


def _is_wrong(number: int) -> bool:
    """Whether a value is wrong: an error is not what a fault shall show."""
    outcome = run_case(draw_case(11, number, SETTINGS))
    assert outcome.kind in ("", "a wrong value") or outcome.verdict != "wrong", outcome.reasons
    return outcome.verdict == "wrong"
