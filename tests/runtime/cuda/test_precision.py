"""Which of torch's settings let float32 products round to tf32: none of them may raise."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from rnnc.runtime.cuda.precision import tf32_allowed

MATMUL = "torch.backends.cuda.matmul"
ALL = "torch.backends.fp32_precision"
# Statements, and whether they allow it. Each runs in a process of its own: flags have no way back.
SETTINGS = {
    "pass": False,
    f"{MATMUL}.allow_tf32 = True": True,
    f"{MATMUL}.allow_tf32 = True; {MATMUL}.allow_tf32 = False": False,
    "torch.set_float32_matmul_precision('highest')": False,
    "torch.set_float32_matmul_precision('high')": True,
    "torch.set_float32_matmul_precision('medium')": True,
    f"{MATMUL}.fp32_precision = 'tf32'": True,
    f"{MATMUL}.fp32_precision = 'ieee'": False,
    f"{ALL} = 'tf32'": True,
    f"{ALL} = 'ieee'": False,
    f"{ALL} = 'bf16'": False,  # no precision of CUDA's
    f"{ALL} = 'tf32'; {MATMUL}.fp32_precision = 'ieee'": False,
    f"{ALL} = 'ieee'; {MATMUL}.fp32_precision = 'tf32'": True,
    f"{ALL} = 'tf32'; {MATMUL}.fp32_precision = 'none'": True,
    # Old and new names mixed, after which torch's own old getter raises.
    f"{MATMUL}.allow_tf32 = True; {MATMUL}.fp32_precision = 'ieee'": False,
    f"{MATMUL}.fp32_precision = 'tf32'; {MATMUL}.allow_tf32 = False": False,
    f"{ALL} = 'tf32'; {MATMUL}.allow_tf32 = False": False,
    f"{MATMUL}.allow_tf32 = True; {ALL} = 'ieee'": True,
}
READ = "print(tf32_allowed(torch.float32), tf32_allowed(torch.bfloat16))"


def test_every_setting_by_old_and_new_names():
    """One process forks for each setting: importing torch takes seconds."""
    script = f"""
import os, sys, torch
from rnnc.runtime.cuda.precision import tf32_allowed
for setting in {list(SETTINGS)!r}:
    if os.fork() == 0:
        exec(setting)
        {READ}
        sys.stdout.flush()
        os._exit(os.EX_OK)
    assert os.wait()[1] == 0, setting
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = [f"{allowed} False" for allowed in SETTINGS.values()]
    assert dict(zip(SETTINGS, done.stdout.splitlines(), strict=True)) == dict(
        zip(SETTINGS, wanted, strict=True)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_flags_are_read_for_float32_alone(dtype, monkeypatch):
    def refuse(*_):
        raise RuntimeError("flags were read")

    monkeypatch.setattr(torch._C, "_get_fp32_precision_getter", refuse)
    assert not tf32_allowed(dtype)
    with pytest.raises(RuntimeError, match="flags were read"):
        tf32_allowed(torch.float32)
