"""A block whose data comes seconds late: a script. Prints `done` where nobody gave up."""

from __future__ import annotations

import dataclasses
import sys

import rnnc
import torch
from rnnc.runtime.store import compiled

STEPS = 2  # at the first the others have had data of all blocks, so that the short bound holds
# In the pointwise map: all blocks have begun by then, as the launch sees to.
STEP = "RNNC_INLINE void apply_pointwise_forward("
IDLE = """
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (blockIdx.x == 0) __nanosleep(1000);
  } while (blockIdx.x == 0 && now - begin < 5000000000);
"""
write = compiled.render


def with_an_idle_block(pointwise, plan):
    source = write(pointwise, plan)
    start, step, rest = source.code.partition(STEP)
    parameters, brace, body = rest.partition("{\n")
    assert step
    assert brace
    return dataclasses.replace(source, code=start + step + parameters + brace + IDLE + body)


def main(variant: str) -> None:
    compiled.render = with_an_idle_block
    wx = torch.randn(4, STEPS, 1, 250, 4, device="cuda", dtype=torch.bfloat16)
    R = torch.randn(4, 1, 250, 250, device="cuda", dtype=torch.bfloat16) / 14
    rnnc.scan(rnnc.cells.lstm, wx, R, variant=variant)
    torch.cuda.synchronize()
    print("done")


main(*sys.argv[1:])
