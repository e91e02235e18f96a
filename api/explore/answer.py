"""Runs a typed text, and answers in parts: the first ones are there before there is a plan."""

from __future__ import annotations

import linecache
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, cast

import jinja2
from markupsafe import Markup

from ..codegen.cuda.limits import limits_of
from ..codegen.shape import Dtype, Shape
from ..define import Cell
from ..errors import RnncError
from ..load import BrokenCell, cells_of, load_file, said
from ..report.card import Card
from ..report.code import backward_text, cpp_text, cuda_texts
from ..report.contents import Report
from ..report.mathml import equations_of
from ..report.page import environment
from ..report.terms import Terms
from .question import Question, Remark
from .remarks import MEMORY, UNDER_MAIN, out_of_time

Part = dict[str, Any]
_PREFIX = "a"


def answer(question: Question, send: Callable[[Part], None], seconds: float = 0) -> None:
    """Run the text, and send what is known of its cell, part by part.

    Args:
        question: the text and the sizes.
        send: gets `{"ran": True}` after the text has run, then `{"cells": …}` with the names and
            the remarks, then `{"texts": …}` twice with HTML by tab.
        seconds: after which the text is interrupted; 0 for no limit.
    """
    remarks: list[Remark] = []
    module = _run(question, remarks, seconds)
    # From here on only the compiler runs, which has a limit of its own.
    send({"ran": True})
    found = cells_of(module) if module else {}
    for broken in found.values():
        if isinstance(broken, BrokenCell):
            remark = _remark(broken.error, question.file)
            remarks += [remark] if remark not in remarks else []
    whole = {name: cell for name, cell in found.items() if isinstance(cell, Cell)}
    if not found and not remarks:
        remarks.append(_NO_CELL)
    name = question.cell if question.cell in whole else next(reversed(whole), "")
    send({"cells": list(whole), "cell": name, "remarks": [asdict(r) for r in remarks]})
    if name:
        try:
            for part in _parts(whole[name], question):
                send(part)
        except Exception as error:
            # A cell can be new to the compiler. The other tabs stay.
            remark = (
                _remark(error, question.file)
                if isinstance(error, RnncError)
                else Remark(f"{name}: {said(error)}", "a cell that compiles", "an issue")
            )
            send({"remarks": [asdict(remark)]})


_NO_CELL = Remark(
    "no cell among the names of the text",
    "at least one function decorated with @rnnc.cell",
    "@rnnc.cell above a function whose arguments are annotated Gate, State, …",
)


class _OutOfTime(BaseException):
    """The text has not ended in time; not an `Exception`, which texts catch."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Interrupt what runs longer, so that the cells above that line can be shown."""

    def stop(*_: object) -> NoReturn:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _run(question: Question, remarks: list[Remark], seconds: float) -> ModuleType | None:
    os.chdir(question.folder)
    # Messages quote lines of the text, which is in no file.
    lines = question.code.splitlines(keepends=True)
    linecache.cache[question.file] = (len(question.code), None, lines, question.file)
    path = Path(question.file)
    try:
        with _within(seconds):
            return load_file(path, question.code.encode("utf-8", "surrogatepass"))
    except MemoryError:
        remarks.append(Remark(f"more than {MEMORY}", "a text that needs less"))
    except RnncError as error:
        remarks.append(_remark(error, question.file))
    except _OutOfTime as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines_of_it = [f.lineno or 0 for f in frames if f.filename == question.file]
        remarks.append(out_of_time(lines_of_it[-1] if lines_of_it else 0))
    except BaseException as error:  # such as KeyboardInterrupt, which the text may raise
        remarks.append(Remark(f"{type(error).__name__}", "a text that runs to its end"))
    # The cells above the line that failed can be shown.
    return sys.modules.get(f"rnnc_file_{path.stem}")


def _remark(error: RnncError, file: str) -> Remark:
    place = re.search(rf"(?:^|, ){re.escape(file)}:(\d+)$", error.where)
    found = error.found
    line = int(place[1]) if place else 0
    for name, more, wanted in _LIMITS:
        if found.startswith(name):
            return Remark(f"{found}: {more}", wanted, UNDER_MAIN, line)
    where = "" if place else f"{error.where}: "
    return Remark(where + found, error.wanted, error.write, line)


# Errors that the limits of `system.py` lead to.
_LIMITS = (
    ("MemoryError", f"it wants more than {MEMORY}", "a text that needs less"),
    ("BlockingIOError", "the page lets no text start a process", "a text without processes"),
    ("RuntimeError: can't start", "the page lets no text start one", "a text without threads"),
)


def _parts(cell: Cell, question: Question) -> Iterator[Part]:
    terms = Terms.of(cell, _PREFIX)

    def equations(prefix: str) -> list[Markup]:
        return [Markup(e.math) for e in equations_of(cell, terms, f"{prefix}-")]

    shape = Shape(
        question.heads, question.head_dim, question.batch, dtype=cast(Dtype, question.dtype)
    )
    card = Card.of(cell, shape)
    yield _texts(
        equations=_html("equations", equations=equations("e"), card=card),
        backward=_html("texts", equations=equations("b"), texts=[backward_text(cell, terms)]),
        cpp=_html("texts", equations=equations("c"), texts=[cpp_text(cell, terms)]),
    )
    report = Report.of(cell, shape, limits_of(question.gpu), question.variant, _PREFIX)
    plan = report.choice.plan
    cuda = cuda_texts(cell, plan, terms) if plan else ()
    yield _texts(
        plan=_html("plans", reports=[report]),
        cuda=_html("texts", equations=equations("k"), texts=cuda, report=report),
    )


def _texts(**texts: str) -> Part:
    return {"texts": texts}


def _html(name: str, **values: Any) -> str:
    return _environment().get_template(f"{name}.html.jinja").render(wide="cells", **values)


@cache
def _environment() -> jinja2.Environment:
    """The report's environment, with this package's templates before the report's."""
    own = jinja2.PackageLoader("rnnc.explore", "templates")
    theirs = environment()
    assert theirs.loader is not None
    return theirs.overlay(loader=jinja2.ChoiceLoader([own, theirs.loader]))
