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
    """What it keeps, why this plan, what binds, where the time goes, which line is a term.

    Args:
        card: of the cell.
        choice: its plan.
        timelines: of both directions; none without a plan.
    """
    kept = ", ".join(card.kept) or "no values of gates"
    found = [
        Answer(
            "What does it keep?",
            f"{kept}, and its states: {card.kept_bytes} bytes per step and unit.",
            "card",
        )
    ]
    if choice.plan is None:
        assert choice.error is not None
        return (*found, Answer("Why no plan?", f"It wants {choice.error.wanted}.", "plan"), _TERM)
    return (
        *found,
        Answer("Why this plan?", _why(choice), "plan"),
        Answer("What binds?", f"{_sentence(choice.plan.binding)}", "plan"),
        Answer("Where does the time go?", _time(timelines), "time"),
        _TERM,
    )


_TERM = Answer(
    "Which line is this term?",
    "Point at a term of an equation: its lines light up in every text.",
    "code",
)


def _sentence(binding: str) -> str:
    return f"{binding or 'Nothing: every size fits'}."


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
    return "; ".join(parts) + "."


def _time(timelines: tuple[Timeline, ...]) -> str:
    parts = []
    for line in timelines:
        longest = line.longest
        shown = longest.length - longest.hidden
        share = round(100 * shown / line.total) if line.total else 0
        parts.append(f"{line.direction}: {share} % {longest.name} ({shown:,} of {line.total:,} ns)")
    return "; ".join(parts) + "."
