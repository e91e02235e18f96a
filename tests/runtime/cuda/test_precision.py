"""Which of torch's settings let float32 products round to tf32; reading them never raises."""

from __future__ import annotations

import os

import pytest
import torch
from rnnc.runtime.cuda.precision import tf32_allowed

MATMUL = "torch.backends.cuda.matmul"
ALL = "torch.backends.fp32_precision"
# Statements, and whether they allow it. Each runs in a child process: torch cannot reset its flags.
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


def test_every_setting_by_old_and_new_names():
    for setting, allowed in SETTINGS.items():
        child = os.fork()
        if child == 0:
            # A code that no error gives; an error would end the child as pytest.
            code = 100
            try:
                exec(setting)
                code = 10 * tf32_allowed(torch.float32) + tf32_allowed(torch.bfloat16)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 10 * allowed, setting


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_flags_are_read_for_float32_alone(dtype, monkeypatch):
    def refuse(*_):
        raise RuntimeError("flags were read")

    monkeypatch.setattr(torch._C, "_get_fp32_precision_getter", refuse)
    assert not tf32_allowed(dtype)
    with pytest.raises(RuntimeError, match="flags were read"):
        tf32_allowed(torch.float32)
