"""The answers to a reader's first questions, each in one sentence."""

from __future__ import annotations

from typing import NamedTuple

from .card import Card
from .figures.timeline import Timeline
from .plans import Choice


class Answer(NamedTuple):
    """A question and its answer.

    Attributes:
        question: in a few words.
        answer: one sentence.
        anchor: the id of the section with the details.
    """

    question: str
    answer: str
    anchor: str


def answers(card: Card, choice: Choice, timelines: tuple[Timeline, ...]) -> tuple[Answer, ...]:
    """Return what it keeps, why this plan, what binds, where the time goes, which line is a term.

    Args:
        card: of the cell.
        choice: its plan.
        timelines: of both directions; none without a plan.
    """
    kept = ", ".join((*card.kept, *card.drawn)) or "no values of gates"
    found = [
        Answer(
            "What does it keep?",
            f"{kept}, and its states: {card.kept_bytes} bytes per step and unit.",
            "card",
        )
    ]
    if choice.plan is None:
        assert choice.error is not None
        why = f"It wants {choice.error.wanted}. Write {choice.error.write}."
        return (*found, Answer("Why no plan?", why, "plan"), _TERM)
    return (
        *found,
        Answer("Why this plan?", _why(choice), "plan"),
        Answer("What binds?", _binds(choice), "plan"),
        Answer("Where does the time go?", _time(timelines), "time"),
        _TERM,
    )


_TERM = Answer(
    "Which line is this term?",
    "Point at a term of an equation: its lines light up in every text.",
    "code",
)


def _binds(choice: Choice) -> str:
    """Return what a larger head would break, of a resident plan; else the needs of other plans."""
    assert choice.plan is not None
    binding = choice.plan.binding
    if not binding:
        return "Nothing: every size fits."
    if choice.plan.variant == "alternating":
        return f"Nothing binds this plan. Of the others, {binding}."
    return f"A larger head would first break this limit: {binding}."


def _why(choice: Choice) -> str:
    """Per direction, the kind that was taken and how much slower the next one is."""
    parts = []
    for direction, candidates in choice.candidates.items():
        taken = next(c for c in candidates if c.taken)
        others = [c for c in candidates if not c.taken and c.nanoseconds]
        text = f"{direction}: {taken.kind}, about {taken.nanoseconds:,} ns per step"
        if others and taken.nanoseconds:
            following = min(others, key=lambda c: c.nanoseconds or 0)
            assert following.nanoseconds is not None
            text += f" ({following.kind}: {following.nanoseconds:,})"
        parts.append(text)
    why = "; ".join(parts) + "."
    assert choice.plan is not None
    if choice.plan.variant == "alternating":
        why += " An alternating plan is of both directions: their sum counts."
    return why


def _time(timelines: tuple[Timeline, ...]) -> str:
    parts = []
    for line in timelines:
        longest = line.longest
        shown = longest.length - longest.hidden
        share = round(100 * shown / line.total) if line.total else 0
        parts.append(f"{line.direction}: {share} % {longest.name} ({shown:,} of {line.total:,} ns)")
    measured = [f"{line.direction} {line.measured:,.0f} ns" for line in timelines if line.measured]
    return "; ".join(parts) + "." + f" Measured: {', '.join(measured)} per step." * bool(measured)
