"""Tokens of a model's text, and errors that point into it."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from ..errors import TextError

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|\#[^\n]*)
    |(?P<line>\n)
    |(?P<number>[0-9]+(?![.][0-9])(?![0-9A-Za-z_]))
    |(?P<name>[^\W0-9]\w*)
    |(?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<mark>->|\.\.|==|!=|<=|>=|//|\*\*|[-+*%^<>()\[\],;:])""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of text, its kind, and where it begins."""

    kind: str
    text: str
    at: int


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text, without spaces and comments, and a last one of the kind `end`.

    Raises:
        TextError: a character begins no token.
    """
    tokens: list[Token] = []
    at, depth = 0, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            _refuse_character(text, at)
        kind = match.lastgroup or ""
        if match[0] in ("(", "["):
            depth += 1
        elif match[0] in (")", "]"):
            depth -= 1
        # A line end inside brackets does not end the statement.
        if kind != "skip" and not (kind == "line" and depth > 0):
            tokens.append(Token(kind, match[0], at))
        at = match.end()
    return [*tokens, Token("end", "", len(text))]


def _refuse_character(text: str, at: int) -> NoReturn:
    found = re.compile(r"[0-9][0-9A-Za-z_.]*|.").match(text, at)
    piece = found[0] if found else text[at]
    write = {"/": "//", "=": "==", "&": "and", "|": "or", "!": "!=", "~": "not"}.get(piece)
    if "." in piece:
        write = "an integer; scale both sides so that no fraction is left"
    wanted = "an integer, a name, a bracket, or one of + - * // % ** == != <= < >= >"
    fail(text, at, f"`{piece}`", wanted, write or "one of these")


def fail(text: str, at: int, found: str, wanted: str, write: str) -> NoReturn:
    """Raise the error of a mistake in a text.

    Args:
        text: the text.
        at: where the mistake begins.
        found: what is there.
        wanted: what should be there.
        write: what to write instead.
    """
    start = text.rfind("\n", 0, at) + 1
    line = text.count("\n", 0, at) + 1
    source = text[start:].split("\n", 1)[0]
    raise TextError(line, at - start + 1, source, found, wanted, write)
