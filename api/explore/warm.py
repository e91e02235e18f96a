"""The process that is warm: it has imported all that a text may need, and forks for each one.

It reads questions from its standard input and writes parts of answers, one line of JSON each. It
has no secret of the page. A line that arrives while a text runs ends that text.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
from typing import IO, Any

from .answer import answer
from .question import Question
from .starts import start_of
from .system import adopt_orphans, end, limit

# Of the text alone; then of the compiler, which meets the text's cell and no more of the text.
TEXT_SECONDS, WHOLE_SECONDS = 2.0, 10.0
# Parts of a text's time: then Python interrupts it, and then the stack is written down, to know the
# line of what cannot be interrupted.
_SOFT, _STACK = 0.8, 0.9
_GRACE = 0.5  # seconds more for the stack of a process that started late
PRINTED, ANSWERED = 1_000_000, 16_000_000  # bytes
_POLL = 0.02  # seconds
# Where answers go. A text's process closes it.
_OUT = 63


def serve() -> None:
    """Answer questions until the standard input ends."""
    os.dup2(1, _OUT)
    os.dup2(2, 1)  # what an import prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the page's process ends this one
    adopt_orphans()
    _warm_up()
    lines = _Lines(sys.stdin.fileno())
    _say({"ready": True})
    while (line := lines.next()) is not None:
        found = json.loads(line)
        if "question" in found:
            question = Question(**found["question"])
            _Run(found["id"], question, found.get("seconds", TEXT_SECONDS)).watch(lines)


def _warm_up() -> None:
    """Import and compute once what every question needs."""
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 (texts may import it, and it takes seconds)
    here = os.getcwd()
    answer(Question(start_of("lstm")), lambda part: None)
    os.chdir(here)


class _Lines:
    """Lines of a pipe, without a buffer that `select` cannot see."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self.rest = b""

    @property
    def waiting(self) -> bool:
        """True if there is something to read, or the end."""
        return b"\n" in self.rest or bool(select.select([self.pipe], [], [], 0)[0])

    def next(self) -> bytes | None:
        while b"\n" not in self.rest:
            more = os.read(self.pipe, 1 << 16)
            if not more:
                return None
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return line


class _Run:
    """One text in a process of its own."""

    def __init__(self, number: int, question: Question, seconds: float) -> None:
        self.number = number
        self.question = question
        self.began = time.monotonic()
        self.seconds = seconds
        self.ran = False
        self.done = False
        self.printed = b""
        self.answered = 0
        self.rest = b""
        self.status = 0
        self.stack: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `watch`)
        self.parts, parts = os.pipe()
        self.prints, prints = os.pipe()
        self.open = {self.parts, self.prints}
        self.pid = os.fork()
        if self.pid == 0:
            self._child(parts, prints)
        os.close(parts)
        os.close(prints)

    def _child(self, parts: int, prints: int) -> None:
        status = 1
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((nothing, 0), (prints, 1), (prints, 2)):
                os.dup2(source, target)
            for pipe in (_OUT, self.parts, self.prints):
                os.close(pipe)
            # The watcher is a thread that needs no lock of Python's. There are no others.
            faulthandler.dump_traceback_later(_STACK * self.seconds, file=self.stack)
            limit()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            soft = _SOFT * self.seconds
            answer(self.question, lambda part: self._send(parts, part), soft)
            sys.stdout.flush()
            sys.stderr.flush()
            self._send(parts, {"done": True})
            status = 0
        finally:
            os._exit(status)

    @staticmethod
    def _send(pipe: int, part: dict[str, Any]) -> None:
        if "ran" in part:
            faulthandler.cancel_dump_traceback_later()
        _write(pipe, part)

    def watch(self, lines: _Lines) -> None:
        """Pass parts of the answer on, until the text has ended or is ended.

        Args:
            lines: the page's; the next one ends this text.
        """
        why = ""
        while not why:
            ready, _, _ = select.select([*self.open, lines.pipe], [], [], _POLL)
            why = self._read(ready) or self._over() or ("replaced" if lines.waiting else "")
        if why == "time" and not self.ran:
            self._wait_for_stack()
        end(self.pid)
        line = self._line() if why == "time" else 0
        self.stack.close()
        os.close(self.parts)
        os.close(self.prints)
        text = self.printed[:PRINTED].decode("utf-8", "replace")
        _say({"id": self.number, "end": why, "line": line, "printed": text, "status": self.status})

    def _read(self, ready: list[int]) -> str:
        """Read what is there; says why the text must end, or nothing."""
        for pipe in self.open.intersection(ready):
            more = os.read(pipe, 1 << 16)
            if not more:
                self.open.discard(pipe)
            elif pipe == self.prints:
                self.printed += more
            else:
                self.answered += len(more)
                *whole, self.rest = (self.rest + more).split(b"\n")
                for line in whole:
                    self._part(line)
        if len(self.printed) > PRINTED:
            return "printed"
        if self.answered > ANSWERED:
            return "answered"
        # What was printed before the end is in its pipe by now.
        return "done" if self.done and self.prints not in ready else ""

    def _part(self, line: bytes) -> None:
        # The text can write to this pipe too, whatever it wants.
        with contextlib.suppress(ValueError, RecursionError):
            part = json.loads(line)
            if isinstance(part, dict):
                self.ran = self.ran or "ran" in part
                self.done = self.done or "done" in part
                _say({"id": self.number, "part": part})

    def _over(self) -> str:
        """Return True if the process has ended, or its time."""
        if time.monotonic() - self.began > (WHOLE_SECONDS if self.ran else self.seconds):
            return "time"
        dead = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if dead is None:
            return ""
        self.status = dead.si_status if dead.si_code == os.CLD_EXITED else -dead.si_status
        ready, _, _ = select.select([*self.open], [], [], 0)
        return "" if ready else "done" if self.done else "ended"

    def _wait_for_stack(self) -> None:
        """Wait for the stack of a process that started late, as one does on a busy machine."""
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and not os.fstat(self.stack.fileno()).st_size:
            time.sleep(_POLL)

    def _line(self) -> int:
        """The innermost line of the text that was running, or 0."""
        self.stack.seek(0)
        stack = self.stack.read().decode("utf-8", "replace")
        name = re.escape(self.question.file)
        found = re.search(rf'File "{name}", line (\d+)', stack)
        return int(found[1]) if found else 0


def _say(found: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # then the input has ended, too
        _write(_OUT, found)


def _write(pipe: int, found: dict[str, Any]) -> None:
    line = json.dumps(found).encode() + b"\n"
    while line:
        line = line[os.write(pipe, line) :]


if __name__ == "__main__":
    serve()
    os._exit(0)  # torch takes a second to end
