"""Disturbances of calls that must end: pauses of the host, and other work on the chip."""

from __future__ import annotations

import time

import cupy
import numpy
from rnnc.runtime.cuda.driver import stream_memory
from rnnc.runtime.cuda.driver.graphs import Graph
from rnnc.runtime.cuda.wavefront import lanes

PAUSE, HELD = 0.03, 50_000_000  # seconds; ns
SHARED = 200_000  # bytes: no other block of that size beside it
BLOCKS = {"half the chip": 66, "32 blocks": 32}  # that a fault holds
SPIN = r"""
extern "C" __global__ void hold(unsigned long long bound) {
  extern __shared__ char memory[];
  unsigned long long first, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(first));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - first < bound);
}
"""


class Fault:
    """A disturbance while a call is issued or replayed: a pause, or other work on the chip."""

    def __init__(self, kind):
        self.kind, self.pause, self.issued, self.wavefronts = kind, set(), 0, 0
        self.first = False  # whether the first layer was issued last
        if kind in BLOCKS:
            self.kernel = cupy.RawKernel(SPIN, "hold")
            self.kernel.max_dynamic_shared_size_bytes = SHARED
            self.side = cupy.cuda.Stream(non_blocking=True)
        self.graphs = 0
        # What live calls and replays have in common: each lane enters before its first item, and a
        # handover comes before and after each other item, or a graph has all of a stream.
        fork, enter, issue = lanes.Lanes.fork, lanes.Lanes.enter, stream_memory.HandOver.__call__
        launch = Graph.launch_again

        def forked(*arguments):
            fork(*arguments)
            self.wavefronts += 1
            self.first = True

        def entered(*arguments):
            self.before()
            enter(*arguments)

        def behind_the_first():
            if self.first and kind == "32 blocks":
                self.hold(BLOCKS[kind])
            self.first = False
            self.before()

        def issued(*arguments):
            behind_the_first()
            issue(*arguments)

        def launched(*arguments):
            behind_the_first()
            self.graphs += 1
            launch(*arguments)

        lanes.Lanes.fork, lanes.Lanes.enter, stream_memory.HandOver.__call__ = (
            forked,
            entered,
            issued,
        )
        Graph.launch_again = launched

    def hold(self, blocks):
        with self.side:
            self.kernel((blocks,), (64,), (numpy.uint64(HELD),), shared_mem=SHARED)

    def before(self):
        if self.issued in self.pause:
            time.sleep(PAUSE)
        self.issued += 1
