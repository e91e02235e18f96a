"""Names that a cell may use: those that its equations and their gradients leave free.

Names of C++, CUDA and their headers are free too: generated code spells a cell's names its own way
(`codegen/emit.py`).
"""

from __future__ import annotations

import re
import unicodedata
from keyword import iskeyword

from .errors import CellError
from .functions import TABLE

# Names of shared values, in the backward, in JSON and in generated code.
_TEMPORARY = re.compile(r"t\d+\Z")


def check_name(name: str, what: str) -> None:
    """Refuse a name that the equations could not use, or that means something else in them.

    Args:
        name: the name as the cell's author wrote it.
        what: what has the name, for messages ("gate", "state", …).

    Raises:
        CellError: the name is reserved, or not an ASCII identifier.
    """
    reason = _reason(name)
    if reason:
        raise CellError(
            f"a {what} with the name `{name}`, {reason}",
            "a name that equations and generated code can use",
            f"another name, for example `{_suggestion(name, what)}`",
        )


def is_usable(name: str) -> bool:
    """Return True if equations and generated code can use a name.

    Args:
        name: of a variable of a cell's function.
    """
    return not _reason(name)


def _suggestion(name: str, what: str) -> str:
    """A free name close to the author's: the first of three that breaks no rule."""
    ascii_only = re.sub(r"[^A-Za-z0-9_]", "", _spelled_out(name))
    ascii_only = ascii_only.removeprefix("d_").removesuffix("_next")
    base = re.sub(r"__+", "_", ascii_only).strip("_0123456789")
    return next(n for n in (base, f"{base}_{what}", f"my_{what}") if not _reason(n))


def _spelled_out(name: str) -> str:
    """A name in ASCII: Greek letters spelled out, umlauts as two letters, no accents."""
    letters = []
    for letter in unicodedata.normalize("NFKC", name):
        words = unicodedata.name(letter, "").split()
        if letter in _SPELLED:
            letters.append(_SPELLED[letter])
        elif words[:1] == ["GREEK"] and "LETTER" in words:
            greek = (
                _GREEK.get(words[-1], words[-1])
                if "WITH" not in words
                else words[words.index("WITH") - 1]
            )
            letters.append(greek.lower().capitalize() if "CAPITAL" in words else greek.lower())
        else:
            letters.append(unicodedata.normalize("NFKD", letter))
    return "".join(letters)


_SPELLED = {
    "ä": "ae",
    "ö": "oe",
    "ü": "ue",
    "Ä": "Ae",
    "Ö": "Oe",
    "Ü": "Ue",
    "ß": "ss",
    "æ": "ae",
    "ø": "o",
}
# Unicode's name and the usual one.
_GREEK = {"LAMDA": "lambda"}


def _reason(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        return "which is not an ASCII identifier that starts with a letter"
    if iskeyword(name):
        return "which is a keyword of Python"
    if "__" in name:
        return "whose double underscore C++ reserves"
    if name in TABLE and not TABLE[name].free_name:
        return f"which is a function of the language ({name})"
    if _TEMPORARY.match(name):
        return "which the generated code uses itself"
    if name.startswith("d_"):
        return "whose prefix d_ means a gradient"
    if name.endswith("_next"):
        return "whose ending _next means a state's new value"
    return ""
