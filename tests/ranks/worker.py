"""One of several processes that run the checks of this folder together: a script.

    python tests/ranks/worker.py RANK RANKS PORT DEVICE [--go-on] [NAME ...]

It prints `ok NAME SECONDS` for each check, and ends at the first that fails, or goes on with the
next one. The exit code is 1 if one failed.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

MODULES = (
    "heads",
    "steps",
    "draws",
    "refused",
    "sharded",
    "layouts",
    "staged",
    "ahead",
    "trained",
    "lost",
)
PATIENCE = timedelta(seconds=60)  # until a rank that waits for another one gives up


def main(rank: int, ranks: int, port: str, device: str, names: list[str]) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    goes_on, names = "--go-on" in names, [name for name in names if name != "--go-on"]
    os.environ["LOCAL_RANK"] = str(rank)
    patience = timedelta(seconds=10) if names == ["late"] else PATIENCE
    backend = "nccl" if device == "cuda" else "gloo"
    if device == "cuda":
        torch.cuda.set_device(rank)
        torch.backends.cudnn.allow_tf32 = False  # results are compared at full precision
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group(backend, where, patience, ranks, rank)
    mesh = dist.init_device_mesh(device, (ranks,), mesh_dim_names=("ranks",))
    if names == ["late"]:
        importlib.import_module("late").wait_for_a_late_rank(mesh)
    failed = False
    for name in MODULES:
        module = importlib.import_module(name)
        for found, check in list(vars(module).items()):  # a check may add a name
            if found.startswith("check_") and (not names or found in names):
                since = time.monotonic()
                torch.manual_seed(0)
                try:
                    check(mesh)
                except (Exception, pytest.fail.Exception):  # also where nothing was raised
                    if not goes_on:
                        raise
                    traceback.print_exc()
                    print("FAILED", found, flush=True)
                    failed = True
                    continue
                print("ok", found, f"{time.monotonic() - since:.2f}", flush=True)
    if device == "cpu":
        os._exit(failed)  # the other one is lost by now
    # A process that leaves while another one still uses their connection may end both.
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(failed)


if __name__ == "__main__":
    first, second, *rest = sys.argv[1:]
    main(int(first), int(second), rest[0], rest[1], rest[2:])
