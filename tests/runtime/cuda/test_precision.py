"""Which of torch's settings let products of float32 round to TF32; reading them never raises."""

from __future__ import annotations

import os

import pytest
import torch
from rnnc.runtime.cuda.products.multiply import rounds

CUDNN = "torch.backends.cudnn"
RNN = f"{CUDNN}.rnn"
MATMUL = "torch.backends.cuda.matmul"
ALL = "torch.backends.fp32_precision"
# Statements, and whether they allow it. Each runs in a child process: torch cannot reset its flags.
SETTINGS = {
    "pass": True,  # torch's default for recurrent networks
    f"{CUDNN}.allow_tf32 = False": False,
    f"{CUDNN}.allow_tf32 = False; {CUDNN}.allow_tf32 = True": True,
    f"{CUDNN}.fp32_precision = 'ieee'; {RNN}.fp32_precision = 'tf32'": True,
    f"{RNN}.fp32_precision = 'ieee'": False,
    f"{RNN}.fp32_precision = 'tf32'": True,
    f"{RNN}.fp32_precision = 'none'; {CUDNN}.fp32_precision = 'ieee'": False,
    f"{RNN}.fp32_precision = 'none'; {CUDNN}.fp32_precision = 'tf32'": True,
    f"{RNN}.fp32_precision = 'none'; {ALL} = 'tf32'": True,
    f"{RNN}.fp32_precision = 'none'; {ALL} = 'ieee'": False,
    # Products outside of recurrent networks have flags of their own.
    f"{MATMUL}.allow_tf32 = False": True,
    f"{MATMUL}.fp32_precision = 'ieee'": True,
    f"{RNN}.fp32_precision = 'ieee'; {MATMUL}.fp32_precision = 'tf32'": False,
    f"{RNN}.fp32_precision = 'ieee'; torch.set_float32_matmul_precision('high')": False,
    # Old and new names mixed, after which torch's own old getter raises.
    f"{CUDNN}.allow_tf32 = True; {RNN}.fp32_precision = 'ieee'": False,
    f"{RNN}.fp32_precision = 'ieee'; {CUDNN}.allow_tf32 = True": True,
}


def test_every_setting_by_old_and_new_names():
    for setting, allowed in SETTINGS.items():
        child = os.fork()
        if child == 0:
            # A code that no error gives; an error would end the child as pytest.
            code = 100
            try:
                # As a process starts, whatever tests before this one have left.
                torch.backends.cudnn.allow_tf32 = True
                exec(setting)
                code = 10 * rounds(torch.float32, None) + rounds(torch.bfloat16, None)
                code += rounds(torch.float32, "ieee") + (not rounds(torch.float32, "tf32"))
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 10 * allowed, setting


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_flags_are_read_for_float32_alone(dtype, monkeypatch):
    def refuse(*_):
        raise RuntimeError("flags were read")

    monkeypatch.setattr(torch._C, "_get_fp32_precision_getter", refuse)
    assert not rounds(dtype, None)
    assert not rounds(dtype, "tf32")
    assert rounds(torch.float32, "tf32")
    with pytest.raises(RuntimeError, match="flags were read"):
        rounds(torch.float32, None)
