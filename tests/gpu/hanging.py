"""A block whose data comes seconds late: a script. Prints `done` where nobody gave up.

Of a cell with stages it is what the first stage of a direction leaves for later ones.
"""

from __future__ import annotations

import dataclasses
import sys

import rnnc
import torch
from rnnc.runtime.store import compiled

STEPS = 2  # at the first the others have had data of all blocks, so that the short bound holds
# In the pointwise map: all blocks have begun by then, as the launch sees to.
STEP = "RNNC_INLINE void apply_pointwise_{}("
STAGE = "RNNC_INLINE void {}_0("
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
    if plan.direction != LATE:
        return source
    function = STAGE if pointwise.cell.has_stages else STEP
    start, step, rest = source.code.partition(function.format(plan.direction))
    parameters, brace, body = rest.partition("{\n")
    assert step
    assert brace
    return dataclasses.replace(source, code=start + step + parameters + brace + IDLE + body)


def main(variant: str, name: str) -> None:
    compiled.render = with_an_idle_block
    cell = rnnc.cells.get(name)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    rnn = rnnc.RNN(cell, 8, 250, variant=variant, **options)
    y, _ = rnn(torch.randn(STEPS, 4, 8, **options))
    if LATE == "backward":
        y.sum().backward()
    torch.cuda.synchronize()
    print("done")


variant, name, LATE = sys.argv[1:]
main(variant, name)
