"""Checks of ranks that come late, or not at all: the others end with torch's error.

They come last: a connection does not survive them.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta

import pytest
import rnnc
import torch.distributed as dist
from compared import drawn, made, spread
from rnnc.distributed import HeadwiseParallel
from torch.distributed.device_mesh import DeviceMesh


def check_lost_ranks(mesh):
    """A rank that stalls, and one that has died. NCCL ends the process instead: see tests/gpu."""
    if mesh.device_type == "cuda":
        return
    patient = made(mesh, rnnc.cells.lstm)
    group = dist.new_group(timeout=timedelta(seconds=2))
    impatient = spread(patient, DeviceMesh.from_group(group, "cpu"), HeadwiseParallel())
    patient, x = spread(patient, mesh, HeadwiseParallel()), drawn(mesh, 4, 3, 5)
    for own in (impatient, patient):
        own(x)
    if dist.get_rank() == 1:
        time.sleep(4)
        os._exit(0)  # without a word
    for own, most in ((impatient, 3.5), (patient, 30)):
        since = time.monotonic()
        with pytest.raises(RuntimeError) as found:
            own(x)
        assert not isinstance(found.value, rnnc.RnncError), found.value
        assert time.monotonic() - since < most
