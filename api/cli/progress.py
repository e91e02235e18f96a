"""Progress on the error stream: a live bar on a terminal, one line per stage elsewhere.

Standard output has results only. A stage of less than two seconds shows nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ..runtime.store.log import listening

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Item = TypeVar("Item")

PATIENCE = 2.0  # seconds of a stage before it is shown


class Stage:
    """One stage of a command, such as the check of some cells.

    Args:
        what: is being done.
        total: the number of its items; None if it is not known.
        start: the number of items that were done before.
    """

    def __init__(self, what: str, total: int | None = None, start: int = 0) -> None:
        self._what, self._total, self._done, self._now = what, total, start, ""
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._ended = False
        self._live: tuple[Progress, TaskID] | None = None

    def advance(self, now: str = "") -> None:
        """Say that an item is done.

        Args:
            now: what comes next, or what is known so far.
        """
        self.at(self._done + 1, now)

    def at(self, done: int, now: str = "") -> None:
        """Say how many items are done.

        Args:
            done: how many of them.
            now: what is known so far.
        """
        with self._lock:
            self._done, self._now = done, now
            self._update()

    def now(self, text: str) -> None:
        """Show what the stage does at the moment. Only a terminal shows it.

        Args:
            text: in a few words.
        """
        with self._lock:
            self._now = text
            self._update()

    def show(self) -> None:
        """Show the stage from now on."""
        from rich.console import Console

        with self._lock:
            if self._ended or self._live is not None:
                return
            console = Console(stderr=True, highlight=False)
            if not console.is_interactive:
                print(self._what, file=sys.stderr, flush=True)
                return
            self._live = self._begin(console)
            self._update()

    def end(self) -> None:
        """Remove the bar."""
        with self._lock:
            self._ended = True
            if self._live is not None:
                self._live[0].stop()

    def _begin(self, console: object) -> tuple[Progress, TaskID]:
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.table import Column

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *(
                [BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total}")]
                if self._total
                else []
            ),
            TimeElapsedColumn(),
            *([TimeRemainingColumn()] if self._total else []),
            TextColumn(
                "{task.fields[now]}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
        )
        live = Progress(
            *columns,
            console=console,  # type: ignore[arg-type]
            transient=True,
            expand=True,
            refresh_per_second=4,  # a measurement in the same process notices more
            # Results that go to a file must not go to the bar's terminal.
            redirect_stdout=sys.stdout.isatty(),
        )
        task = live.add_task(self._what, total=self._total, now="")
        live.tasks[0].start_time = self._began
        live.start()
        return live, task

    def _update(self) -> None:
        if self._live is not None:
            live, task = self._live
            live.update(task, completed=self._done, now=self._now)


@contextmanager
def stage(what: str, total: int | None = None, start: int = 0) -> Iterator[Stage]:
    """A stage of a command, shown if it takes longer than two seconds.

    Args:
        what: is being done.
        total: the number of its items; None if it is not known.
        start: the number of items that were done before.

    Example:
        >>> from rnnc.cli.progress import stage
        >>> with stage("checking", total=2) as shown:
        ...     for name in ("lstm", "gru"):
        ...         shown.advance(name)
    """
    shown = Stage(what, total, start)
    timer = threading.Timer(PATIENCE, shown.show)
    timer.daemon = True
    if PATIENCE > 0:
        timer.start()
    else:
        shown.show()
    try:
        with listening(shown.now):  # to what the library compiles
            yield shown
    finally:
        timer.cancel()
        shown.end()


def track(
    items: Iterable[Item],
    what: str,
    total: int | None = None,
    name: Callable[[Item], str] = lambda item: "",
    disable: bool = False,
) -> Iterator[Item]:
    """The items of a stage, one after the other.

    Args:
        items: the items.
        what: is being done with them.
        total: their number; None to ask `items`, where they have a length.
        name: of an item, which a terminal shows while it is the current one.
        disable: whether to show nothing.

    Example:
        >>> from rnnc.cli.progress import track
        >>> list(track(["lstm", "gru"], "checking"))
        ['lstm', 'gru']
    """
    if disable:
        yield from items
        return
    if total is None and isinstance(items, Sized):
        total = len(items)
    with stage(what, total) as shown:
        for item in items:
            shown.now(name(item))
            yield item
            shown.advance()


def stages(items: Sequence[Item], what: str, name: Callable[[Item], str] = str) -> Iterator[Item]:
    """The items, each as a stage of its own: its line has its number and its name.

    Args:
        items: the items.
        what: is done with each, in a word.
        name: of an item.

    Example:
        >>> from rnnc.cli.progress import stages
        >>> list(stages(["lstm", "gru"], "cell"))
        ['lstm', 'gru']
    """
    count = len(items)
    for number, item in enumerate(items):
        with stage(f"{what} {number + 1} of {count}: {name(item)}", count, number):
            yield item
