"""Names that a cell may use: those that C++, CUDA and the generated code leave free."""

from __future__ import annotations

import re
import unicodedata
from keyword import iskeyword

from .errors import CellError
from .functions import TABLE

_CPP_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while
    xor xor_eq""".split()
)
# Macros and globals of the headers that generated sources include, and CUDA's built-in variables.
_MACROS_AND_GLOBALS = frozenset(
    """NULL NAN INFINITY HUGE_VAL I complex errno assert offsetof main std signbit isnan isinf
    isfinite threadIdx blockIdx blockDim gridDim warpSize linux unix half""".split()
)
# Names of types, helpers and inputs in the generated code.
_GENERATED = frozenset("real power gates states params".split())
_TEMPORARY = re.compile(r"t\d+\Z")


def check_name(name: str, what: str) -> None:
    """Refuse a name that the generated C++ could not use.

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
            "a name that the generated C++ and CUDA can use",
            f"another name, for example `{_suggestion(name, what)}`",
        )


def _suggestion(name: str, what: str) -> str:
    """A free name close to the author's: the first of three that breaks no rule."""
    ascii_only = re.sub(r"[^A-Za-z0-9_]", "", _spelled_out(name))
    ascii_only = ascii_only.removeprefix("d_").removesuffix("_next")
    base = re.sub(r"__+", "_", ascii_only).strip("_0123456789")
    return next(
        n for n in (base, f"{base}_{what}", f"my_{what}") if not (_reason(n) or iskeyword(n))
    )


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
    if name in _CPP_KEYWORDS:
        return "which is a keyword of C++"
    if "__" in name:
        return "whose double underscore C++ reserves"
    if name in TABLE:
        return f"which is a function of the language ({name})"
    if name in _MACROS_AND_GLOBALS:
        return "which C++ or CUDA headers define"
    if name in _GENERATED or _TEMPORARY.match(name):
        return "which the generated code uses itself"
    if name.startswith("d_"):
        return "whose prefix d_ means a gradient"
    if name.endswith("_next"):
        return "whose ending _next means a state's new value"
    return ""
