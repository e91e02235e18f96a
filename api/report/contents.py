"""What a report says of one cell: the data of all sections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ..cellspec.cell import CellSpec
from ..codegen.cuda.limits import Limits
from ..codegen.shape import DIRECTIONS, Shape
from .card import Card
from .chip import Chip
from .code import Code
from .mathml import Equation, equations_of
from .plans import Choice
from .summary import Answer, answers
from .terms import Terms
from .timeline import Timeline, timeline_of


@dataclass(frozen=True)
class Kernel:
    """One direction's kernel.

    Attributes:
        direction: forward or backward.
        kind: block, cluster, grid or alternating.
        words: which blocks compute which rows, and the sizes.
        binding: the constraint that a larger head would break.
        chip: where it keeps its data.
        timeline: the parts of a step.
    """

    direction: str
    kind: str
    words: tuple[str, str]
    binding: str
    chip: Chip
    timeline: Timeline


@dataclass(frozen=True)
class Report:
    """All facts of one cell, for one shape and one GPU.

    Attributes:
        prefix: comes before ids of the page, to tell two cells apart.
        cell: the cell.
        shape: sizes and dtype.
        limits: the GPU.
        terms: of the equations.
        equations: as MathML.
        card: signature, parameters, bytes and operations.
        choice: the plan, or why there is none.
        kernels: of both directions; none without a plan.
        code: the texts of its kernels, with the terms of each line.
        answers: to a reader's first questions.
    """

    prefix: str
    cell: CellSpec
    shape: Shape
    limits: Limits
    terms: Terms
    equations: tuple[Equation, ...]
    card: Card
    choice: Choice
    kernels: tuple[Kernel, ...]
    code: Code
    answers: tuple[Answer, ...]

    @classmethod
    def of(
        cls,
        cell: CellSpec,
        shape: Shape,
        limits: Limits,
        variant: str = "auto",
        prefix: str = "a",
    ) -> Report:
        """The report of a cell.

        Args:
            cell: the cell.
            shape: sizes and dtype.
            limits: the GPU.
            variant: a kind of plan, or `"auto"`.
            prefix: of ids.
        """
        terms = Terms.of(cell, prefix)
        card, choice = Card.of(cell, shape), Choice.of(cell, shape, limits, variant)
        kernels = _kernels(cell, shape, limits, choice)
        return cls(
            prefix=prefix,
            cell=cell,
            shape=shape,
            limits=limits,
            terms=terms,
            equations=equations_of(cell, terms, f"{prefix}-"),
            card=card,
            choice=choice,
            kernels=kernels,
            code=Code.of(cell, choice.plan, terms),
            answers=answers(card, choice, tuple(k.timeline for k in kernels)),
        )

    @property
    def math(self) -> tuple[Markup, ...]:
        """The equations as HTML; the printer escapes all names."""
        return tuple(Markup(equation.math) for equation in self.equations)

    @property
    def math_again(self) -> tuple[Markup, ...]:
        """The equations once more, with ids of their own."""
        again = equations_of(self.cell, self.terms, f"{self.prefix}-code-")
        return tuple(Markup(equation.math) for equation in again)

    def data(self) -> dict[str, Any]:
        """All figures as JSON has them."""
        plan = self.choice.plan
        return {
            "cell": self.cell.model_dump(mode="json"),
            "fingerprint": self.cell.fingerprint,
            "shape": vars(self.shape),
            "gpu": vars(self.limits),
            "plan": plan and {d: str(getattr(plan, d)) for d in DIRECTIONS},
            "refused": self.choice.error and self.choice.error.found,
            "candidates": {
                d: [c._asdict() for c in cs] for d, cs in self.choice.candidates.items()
            },
            "kernels": [
                {
                    "direction": kernel.direction,
                    "estimated_ns_per_step": kernel.timeline.total,
                    "parts": [span._asdict() for span in kernel.timeline.spans],
                    "moves": [move._asdict() for move in kernel.chip.moves],
                }
                for kernel in self.kernels
            ],
        }


def _kernels(cell: CellSpec, shape: Shape, limits: Limits, choice: Choice) -> tuple[Kernel, ...]:
    if choice.plan is None:
        return ()
    return tuple(
        Kernel(
            plan.direction,
            plan.kind,
            (plan.mapping, plan.sizes),
            plan.binding,
            Chip.of(cell, shape, limits, plan),
            timeline_of(cell, shape, limits, plan),
        )
        for plan in (choice.plan.forward, choice.plan.backward)
    )
