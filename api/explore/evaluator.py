"""The page's side of the warm process: the latest question of each page is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from typing import Any

from .question import Question

# Gets `{"part": …}` several times, then `{"end": why, "line": …, "printed": …, "status": …}`.
Listener = Callable[[dict[str, Any]], None]
# Longer than a text may run: the process itself does not answer.
SILENCE_SECONDS = 20.0
_LINE = 64_000_000  # bytes; the longest answer, as JSON in JSON


@dataclass
class _Asked:
    owner: Hashable
    question: Question
    listen: Listener
    number: int = 0


class Evaluator:
    """Asks a warm process. A newer question of the same page replaces its older one.

    Attributes:
        seconds: that a text may run.
        ready: set while the process is warm.
    """

    def __init__(self, seconds: float = 2.0) -> None:
        self.seconds = seconds
        self.ready = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._current: _Asked | None = None
        self._waiting: dict[Hashable, _Asked] = {}
        self._watch: asyncio.TimerHandle | None = None
        self._count = 0

    async def start(self) -> None:
        """Start the process. It takes seconds to be warm; questions may come before."""
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.ready.clear()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the folder of the caller may hold a file named like a module
            "-m",
            "rnnc.explore.warm",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=variables,
            limit=_LINE,
            start_new_session=True,  # Ctrl-C is for the page's process
        )
        self._reader = asyncio.create_task(self._read(self._process))
        if self._current is not None:
            self._send(self._current)

    async def stop(self) -> None:
        """End the process, and with it what it runs."""
        process, self._process = self._process, None
        if self._watch:
            self._watch.cancel()
        if self._reader:
            self._reader.cancel()
        if process is not None and process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()  # it ends its text, then itself
            try:
                await asyncio.wait_for(process.wait(), 2)
            except TimeoutError:
                process.kill()
                await process.wait()

    def ask(self, owner: Hashable, question: Question, listen: Listener) -> None:
        """Ask a question; an earlier one of the same owner gets no further answer.

        Args:
            owner: a page.
            question: the text and the sizes.
            listen: gets the answer.
        """
        asked = _Asked(owner, question, listen)
        if self._current is not None and self._current.owner != owner:
            self._waiting[owner] = asked
        else:
            self._send(asked)

    def forget(self, owner: Hashable) -> None:
        """End the questions of a page that was closed.

        Args:
            owner: the page.
        """
        self._waiting.pop(owner, None)
        if self._current is not None and self._current.owner == owner:
            self._write({"cancel": True})
            self._next()

    def _send(self, asked: _Asked) -> None:
        self._count += 1
        asked.number = self._count
        self._current = asked
        self._write(
            {"id": asked.number, "question": asdict(asked.question), "seconds": self.seconds}
        )
        if self.ready.is_set():
            self._expect()

    def _write(self, line: dict[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                self._process.stdin.write(json.dumps(line).encode() + b"\n")

    def _expect(self) -> None:
        """End a process that says nothing more, as after a text that stopped it."""
        if self._watch:
            self._watch.cancel()
        process = self._process
        if process is not None:
            loop = asyncio.get_running_loop()
            self._watch = loop.call_later(SILENCE_SECONDS, self._silent, process)

    def _silent(self, process: asyncio.subprocess.Process) -> None:
        if self._current is not None and process.returncode is None:
            process.kill()

    def _next(self) -> None:
        self._current = None
        if self._waiting:
            self._send(self._waiting.pop(next(iter(self._waiting))))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await _line_of(process.stdout):
            found = json.loads(line)
            if "ready" in found:
                self.ready.set()
                self._expect()
            elif self._current is not None and found["id"] == self._current.number:
                asked = self._current
                if "end" in found:
                    self._next()
                asked.listen(found)
        try:
            await asyncio.wait_for(process.wait(), 1)
        except TimeoutError:
            process.kill()
            await process.wait()
        await self._again()

    async def _again(self) -> None:
        """Start another process in place of one that a text ended, but not without end."""
        was_ready, asked = self.ready.is_set(), self._current
        self._process, self._current = None, None
        if asked is not None:
            asked.listen({"id": asked.number, "end": "died", "line": 0, "printed": "", "status": 0})
        if was_ready:
            if self._current is None and self._waiting:
                self._current = self._waiting.pop(next(iter(self._waiting)))
            await self.start()


async def _line_of(stream: asyncio.StreamReader) -> bytes:
    """The next line, or nothing at the end and for a line above the limit."""
    try:
        return await stream.readline()
    except ValueError:
        return b""
