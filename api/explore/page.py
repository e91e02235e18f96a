"""The page: an editor on the left, and tabs on the right that follow it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Any

from nicegui import ui

from ..cellspec.library import NAMES
from .evaluator import Evaluator
from .question import LONGEST, Question, Remark
from .remarks import remark_of
from .sizes import Sizes
from .starts import start_of

TABS = {
    "equations": "Equations",
    "backward": "Backward",
    "cpp": "C++",
    "cuda": "CUDA",
    "plan": "Plan",
}
# After the last key, and after the last move of a slider.
PAUSE_SECONDS = 0.15
_PRINTED = 10_000  # characters
_THEMES = {False: "vscodeLight", True: "vscodeDark"}
_NOTHING = '<p class="note">This is filled when the text has run.</p>'
_WARNING = (
    "The page runs what you type, while you type it, on this machine with your rights. It is no"
    " sandbox: paste only what you would run."
)


@dataclass(frozen=True)
class Start:
    """First content of the editor.

    Attributes:
        code: the text.
        file: its name.
        folder: where it runs.
        name: of the cell to show.
        trusted: whether it may run before a click, as the library's cells may.
    """

    code: str
    file: str
    folder: str
    name: str
    trusted: bool


class Page:
    """The page in one tab of a browser."""

    def __init__(self, evaluator: Evaluator, start: Start) -> None:
        self._evaluator = evaluator
        self._start = start
        self._may_run = start.trusted
        self._cell = start.name
        self._due: asyncio.TimerHandle | None = None
        self._asked_at = 0.0
        self._remarks: list[Remark] = []
        self._told = False
        ui.dark_mode(None)
        with ui.element("div").classes("explore"):
            self._head()
            with ui.element("section").classes("typed").props('aria-label="Text"'):
                self._left()
            with ui.element("section").classes("shown").props('aria-label="What it becomes"'):
                self._right()
        ui.on("scheme", lambda event: self._follow(bool(event.args)))

    async def connected(self) -> None:
        """Begin when the browser is there."""
        self._later(0)
        query = 'matchMedia("(prefers-color-scheme: dark)").matches'
        self._follow(bool(await ui.run_javascript(query, timeout=30)))

    def closed(self) -> None:
        """End what runs for this page."""
        if self._due:
            self._due.cancel()
        self._evaluator.forget(self)

    # What it consists of.

    def _head(self) -> None:
        with ui.element("header"):
            with ui.element("h1"):
                ui.label("rnnc explore")
            first = self._start.name if self._start.trusted else None
            library = ui.select(list(NAMES), value=first, label="Start from", with_input=True)
            library.props('dense options-dense aria-label="Start from a cell of the library"')
            library.classes("pick-one").on_value_change(self._begin)
            with ui.element("p").classes("warning"):
                ui.label(_WARNING)
            self._status = ui.label("").classes("status").props("role=status")

    def _left(self) -> None:
        if not self._may_run:
            with ui.element("div").classes("run") as self._banner:
                with ui.element("p"):
                    ui.label(f"{self._start.file} has not run yet. Read it first.")
                _button(f"Run {self._start.file}", self._allow, "button")
        self._editor = ui.codemirror(
            self._start.code,
            language="Python",
            theme="vscodeLight",
            line_wrapping=True,
            on_change=self._edited,
        )
        self._below = ui.element("div").classes("remarks").props('aria-live=polite tabindex="0"')
        self._below.props('role=region aria-label="Messages"')
        with self._below:
            self._note("No messages.")

    def _right(self) -> None:
        with ui.tabs(value="equations", on_change=self._turn) as tabs:
            tabs.props("dense no-caps align=left")
            for key, name in TABS.items():
                ui.tab(key, label=name)
        self._sizes = Sizes(lambda: self._later(PAUSE_SECONDS))
        self._sizes.box.set_visibility(False)
        self._several = ui.select([], label="Cell", on_change=self._choose).classes("pick-one")
        self._several.props('dense options-dense aria-label="Cell of the text"').set_visibility(
            False
        )
        self._old = ui.label("This text has no cell: below is the last one.").classes("old")
        self._old.set_visibility(False)
        self._answers: dict[str, ui.html] = {}
        with ui.tab_panels(tabs, value="equations", animated=False):
            for key in TABS:
                with ui.tab_panel(key):
                    # The text that runs could write HTML here. The browser takes scripts out.
                    self._answers[key] = ui.html(_NOTHING, sanitize=True).classes("answer")

    # What the person does.

    def _begin(self, event: Any) -> None:
        if event.value in NAMES and self._editor.value != start_of(event.value):
            self._may_run = True
            self._hide_banner()
            self._cell = event.value
            self._start = replace(self._start, file="cell.py")
            self._editor.set_value(start_of(event.value))

    def _allow(self) -> None:
        self._may_run = True
        self._hide_banner()
        self._later(0)

    def _hide_banner(self) -> None:
        if not self._start.trusted:
            self._banner.set_visibility(False)

    def _edited(self) -> None:
        self._later(PAUSE_SECONDS)

    def _turn(self, event: Any) -> None:
        self._sizes.box.set_visibility(event.value in ("cuda", "plan"))

    def _choose(self, event: Any) -> None:
        if event.value and event.value != self._cell:
            self._cell = event.value
            self._later(0)

    def _follow(self, dark: bool) -> None:
        self._editor.run_method("setTheme", _THEMES[dark])

    # Questions and answers.

    def _later(self, seconds: float) -> None:
        if self._due:
            self._due.cancel()
        if self._may_run:
            self._due = asyncio.get_running_loop().call_later(seconds, self._ask)

    def _ask(self) -> None:
        code = self._editor.value or ""
        if len(code) > LONGEST:
            self._say([Remark(f"more than {LONGEST:,} characters", "a shorter text")], "")
            return
        warm = self._evaluator.ready.is_set()
        self._status.set_text("Running" if warm else "Starting: this takes some seconds")
        self._asked_at = time.monotonic() if warm else 0.0
        self._remarks = []
        if self._told:  # of the text before
            self._say([], "", "The text runs.")
        start = self._start
        question = Question(code, start.file, start.folder, self._cell, **self._sizes.chosen)
        self._evaluator.ask(self, question, self._heard)

    def _heard(self, found: dict[str, Any]) -> None:
        if "end" in found:
            self._ended(found)
            return
        try:
            self._take(found["part"])
        except Exception as error:
            # The text can forge an answer. NiceGUI refuses scripts in it, for one.
            self._remarks.append(Remark(f"an answer that cannot be shown: {error}"))

    def _take(self, part: dict[str, Any]) -> None:
        for each in part.get("remarks", ()):
            self._remarks.append(Remark(**each))
        if "cells" in part:
            self._offer(part["cells"], part["cell"])
        for key, text in part.get("texts", {}).items():
            self._answers[key].set_content(text)

    def _ended(self, end: dict[str, Any]) -> None:
        ended = remark_of(end)
        if ended:
            self._remarks.append(ended)
        self._say(self._remarks, end["printed"])
        if self._remarks:
            count = len(self._remarks)
            self._status.set_text(f"{count} message{'s' if count > 1 else ''}")
        else:
            seconds = time.monotonic() - self._asked_at
            self._status.set_text(f"Ready: {seconds:.2f} s" if self._asked_at else "Ready")

    def _offer(self, names: list[str], shown: str) -> None:
        self._old.set_visibility(not shown and bool(self._cell))
        if not shown:
            return
        self._cell = shown
        self._several.set_visibility(len(names) > 1)
        self._several.set_options(names, value=shown)

    # Messages.

    def _say(self, remarks: list[Remark], printed: str, nothing: str = "No messages.") -> None:
        self._told = bool(remarks or printed.strip())
        self._mark([remark.line for remark in remarks if remark.line])
        self._below.clear()
        with self._below:
            if not remarks:
                self._note(nothing)
            for remark in remarks:
                self._remark(remark)
            if printed.strip():
                with ui.element("h2"):
                    ui.label("Printed")
                with ui.element("pre").classes("printed").props("tabindex=0"):
                    more = f"\n… {len(printed):,} characters" if len(printed) > _PRINTED else ""
                    ui.label(printed[:_PRINTED] + more)

    @staticmethod
    def _note(text: str) -> None:
        with ui.element("p").classes("note"):
            ui.label(text)

    def _remark(self, remark: Remark) -> None:
        with ui.element("div").classes("remark"):
            if remark.line:
                line = remark.line
                _button(f"Line {line}", lambda: self._editor.reveal_line(line), "plain")
            with ui.element("dl"):
                for name in ("found", "wanted", "write"):
                    if getattr(remark, name):
                        with ui.element("dt"):
                            ui.label(name)
                        with ui.element("dd"):
                            ui.label(getattr(remark, name))

    def _mark(self, lines: list[int]) -> None:
        # A new property would send the text back with it, without the latest keys.
        wrong = [{"kind": "line", "line": line, "class": "wrong-line"} for line in sorted({*lines})]
        self._editor.run_method("setDecorations", wrong)


def _button(text: str, clicked: Any, look: str) -> None:
    """A plain button of the browser, in the page's own colours."""
    with ui.element("button").classes(look).props("type=button").on("click", clicked):
        ui.label(text)
