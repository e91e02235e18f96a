"""A cached call enters few files of the package: a reader can follow it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver import room

ROOT = Path(rnnc.__file__).resolve().parents[1]
MOST = 8
SIZES = {"block": 64, "cluster": 256, "grid": 256}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("variant", SIZES)
def test_a_forward_and_its_backward(variant, dtype, simulated_gpu, monkeypatch):
    monkeypatch.setattr(room, "is_here", lambda _: True)  # so that calls are replayed
    cell, dim = rnnc.cells.lstm, SIZES[variant]
    shapes = (2, 3, 1, dim, 4), (4, 1, dim, dim), (4, 1, dim)
    leaves = [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]
    seed = torch.randn(2, 3, 1, dim).to(dtype)

    def call():
        # At the precision of torch's own products, which then serve.
        (h, _), _ = rnnc.scan(cell, *leaves, variant=variant, backend="simulated", precision="ieee")
        torch.autograd.grad(h, leaves, seed)

    for _ in range(4):
        call()
    entered = set()

    def note(frame, event, argument):
        if event == "call":
            entered.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    rooms = [ROOT / room for room in ("api", "cellspec", "codegen", "runtime")]
    paths = sorted(Path(name).resolve() for name in entered)
    files = [str(p.relative_to(ROOT)) for p in paths if any(r in p.parents for r in rooms)]
    assert len(files) <= MOST, "\n".join(files)
    assert "runtime/scan/scan.py" in files
    assert simulated_gpu == ["rnnc_forward", "rnnc_backward"] * 5
