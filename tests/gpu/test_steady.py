"""Calls end, with the bits of calm ones, in fresh processes and whatever else happens.

They are of wavefronts, whose bits are those of layers one by one, and of cells with stages. All
cases take about half an hour: `make test-steady`. `make test-gpu` has some of them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# How many of each kind there are, and how many `make test-gpu` has.
COUNTS = {"PROPERTIES": (150, 12), "STAGES": (60, 4), "WAVES": (60, 4), "STEPS": (40, 4)}


def cases():
    found = importlib.util.spec_from_file_location("steady_cases", HERE / "steady_cases.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    made = []
    for kind, (every, few) in COUNTS.items():
        count = every if os.environ.get("RNNC_STEADY") == "1" else few
        made += module.cases(every, getattr(module, kind))[:count]
    return [pytest.param(case, id=module.text(case)) for case in made]


@pytest.fixture(scope="module")
def server():
    """Runs a case in a fresh process; gives what became of it."""
    program = [sys.executable, str(HERE / "steady_child.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = os.environ | {"RNNC_WATCHDOG_SECONDS": "15", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(program, text=True, env=environment, **pipes) as process:

        def run(case):
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
            found = []
            while not found or found[-1] != "ended":
                line = process.stdout.readline()
                assert line, "the server has ended"
                found.append(json.loads(line))
            return found[0] if len(found) > 1 else "died: without an outcome"

        yield run
        process.stdin.close()


@pytest.mark.parametrize("case", cases())
def test_ends_with_the_right_bits_or_a_reason(case, server, record_property):
    found = server(case)
    print(found)
    record_property("outcome", found)
    assert found.startswith(("right", "refused")), found
