"""The fuzzer finds each fault that is planted in the text of CUDA kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from rnnc.verify.draw.case import Settings, draw_case
from rnnc.verify.draw.tree import Case
from rnnc.verify.fuzz.run import run_case

_path = Path(__file__).parents[1] / "api" / "verify" / "plant.py"
_spec = importlib.util.spec_from_file_location("plant", _path)
plant = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(plant)

CELLS = 200  # within which a fault is found
SETTINGS = Settings("cuda", "block", compiled=0.0)


@pytest.mark.parametrize("fault", plant.FAULTS)
def test_a_planted_fault_is_found(fault, tmp_path):
    """Only cases that have what the fault spoils are compiled; the others count as well."""
    with plant.planted(fault, "cuda", str(tmp_path / "faulty")):
        found = next((n for n in range(CELLS) if _shows(fault, case_of(n))), None)
    assert found is not None, f"{fault}: not found within {CELLS} cells"
    print(f"{fault}: found by cell {found + 1}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RNNC_CACHE_DIR", str(tmp_path / "right"))
        # It is the fault that was found: without it the case is right.
        assert run_case(case_of(found)).verdict == "right"


def case_of(number: int) -> Case:
    return draw_case(11, number, SETTINGS)


def _shows(fault: str, case: Case) -> bool:
    return plant.may_show(fault, case) and run_case(case).verdict == "wrong"
