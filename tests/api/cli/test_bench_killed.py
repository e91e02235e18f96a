"""`rnnc bench --peers` that is ended on the way: the file has what was measured until then."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rnnc.bench import report

COMMAND = (
    "bench --peers --device cpu --repeat 2 --contenders nn,attention --json found.json".split()
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_a_whole_file(number, tmp_path):
    path = tmp_path / "found.json"
    run = subprocess.Popen([sys.executable, "-m", "rnnc", *COMMAND], cwd=tmp_path)
    end = time.monotonic() + 120
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    run.send_signal(number)
    assert run.wait(60) != 0
    content = json.loads(path.read_text())
    assert content["cases"][0]["contenders"][0]["forward_backward"]["median"] > 0
    # The same command goes on.
    subprocess.run([sys.executable, "-m", "rnnc", *COMMAND], cwd=tmp_path, check=True)
    more = json.loads(path.read_text())
    assert more["cases"][0] == content["cases"][0]
    assert [case["cell"] for case in more["cases"]] == ["lstm", "gru"]


def test_a_record_replaces_the_last_one_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "found.json"
    report.write_record({"a": 1}, path)

    def cut(self: Path, text: str, encoding: str) -> None:
        with self.open("w", encoding=encoding) as file:
            file.write(text[:3])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", cut)
    with pytest.raises(KeyboardInterrupt):
        report.write_record({"a": 2, "b": 3}, path)
    assert json.loads(path.read_text()) == {"a": 1}
