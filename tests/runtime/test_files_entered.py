"""A call enters few files of the runtime: the first one of a process, and one that comes again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# The most that the first call enters, and a later one, on a CPU, forward and backward.
MOST = {"scan": (50, 7), "module": (51, 8)}
PROGRAM = """
import sys
import threading
from pathlib import Path

import rnnc
import torch

ROOM = Path(rnnc.__file__).resolve().parents[1] / "runtime"
wx, R = torch.randn(2, 3, 1, 16, 4, requires_grad=True), torch.randn(4, 1, 16, 16)
rnn, x = rnnc.RNN("lstm", 8, 16), torch.randn(5, 3, 8)
CALLS = {"scan": lambda: rnnc.scan(rnnc.cells.lstm, wx, R)[0][0], "module": lambda: rnn(x)[0]}


def entered():
    files = set()
    note = lambda frame, event, _: event == "call" and files.add(frame.f_code.co_filename)
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        CALLS[sys.argv[1]]().sum().backward()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len([name for name in files if ROOM in Path(name).resolve().parents])


print(*[entered() for _ in range(5)])
"""


@pytest.mark.parametrize("kind", MOST)
def test_a_first_and_a_later_call(kind, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind],
        env={**os.environ, "RNNC_CACHE_DIR": str(tmp_path), "RNNC_QUICK_COMPILE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *_, later = map(int, done.stdout.split())
    most_first, most_later = MOST[kind]
    assert 0 < later < first
    assert (first <= most_first, later <= most_later) == (True, True), (first, later)
