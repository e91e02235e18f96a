"""What `rnnc explore` says before there is a page: ports, files, the missing extra."""

from __future__ import annotations

import importlib.util
import socket

import pytest
from rnnc.cli import explore
from rnnc.cli.app import app
from rnnc.errors import RnncError
from rnnc.explore.serve import PortError, bound
from rnnc.explore.starts import start_of
from typer.testing import CliRunner


def test_it_listens_on_this_machine_only_and_finds_a_free_port():
    with bound(0) as first, bound(0) as second:
        assert first.getsockname()[0] == second.getsockname()[0] == "127.0.0.1"
        assert 0 < first.getsockname()[1] != second.getsockname()[1]
        with socket.create_connection(first.getsockname(), 5):
            pass


def test_a_port_in_use_is_refused_with_a_remedy():
    with bound(0) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(PortError) as refused:
            bound(number)
    assert refused.value.where == f"--port {number}"
    assert "another program uses" in refused.value.found
    assert "--port 0" in refused.value.write
    with bound(number):  # free again
        pass


def test_without_the_extra_the_command_says_what_adds_it(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "nicegui" else find(name)
    )
    result = CliRunner().invoke(app, ["explore"])
    assert result.exit_code == 1
    assert 'pip install "rnnc[explore]"' in result.stderr


def test_a_cell_of_the_library_may_run_and_a_file_may_not(tmp_path):
    code, file, _, name, trusted = explore._start("gru")
    assert (code, file, name, trusted) == (start_of("gru"), "cell.py", "gru", True)
    path = tmp_path / "mine.py"
    path.write_text("raise SystemExit\n")
    for word, cell in ((str(path), ""), (f"{path}:leaky", "leaky")):
        found = explore._start(word)
        assert found == ("raise SystemExit\n", "mine.py", str(tmp_path), cell, False)


@pytest.mark.parametrize(
    ("word", "said"),
    [("lstn", "lstm"), ("none.py", "No such file"), ("", "my_cell.py")],
)
def test_what_is_no_cell_and_no_file_is_refused(word, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RnncError) as refused:
        explore._start(word)
    assert said in str(refused.value)
