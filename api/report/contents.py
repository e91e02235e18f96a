"""Contents of the report of one cell: the data of all sections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from markupsafe import Markup

from ..cellspec.cell import CellSpec
from ..codegen.cuda.limits import Limits
from ..codegen.plan import Plan
from ..codegen.shape import DIRECTIONS, Shape
from .card import Card
from .code import Code
from .figures.accuracy import Accuracy, accuracy_of
from .figures.chip import Chip
from .figures.limits import Rooflines, rooflines_of
from .figures.timeline import Timeline, timeline_of
from .mathml import Equation, equations_of
from .measured import Measured
from .plans import Choice
from .summary import Answer, answers
from .terms import Terms

Measure = Callable[[CellSpec, Shape, Plan], Measured]


@dataclass(frozen=True)
class Kernel:
    """One direction's kernel.

    Attributes:
        direction: forward or backward.
        kind: block, cluster, grid, walk, scan or alternating.
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
        measured: times and errors of a GPU; None for estimates alone.
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
    measured: Measured | None
    answers: tuple[Answer, ...]

    @classmethod
    def of(
        cls,
        cell: CellSpec,
        shape: Shape,
        limits: Limits,
        variant: str = "auto",
        prefix: str = "a",
        measure: Measure | None = None,
    ) -> Report:
        """The report of a cell.

        Args:
            cell: the cell.
            shape: sizes and dtype.
            limits: the GPU.
            variant: a kind of plan, or `"auto"`.
            prefix: of ids.
            measure: times a plan and finds its errors; None for estimates alone.
        """
        terms = Terms.of(cell, prefix)
        card, choice = Card.of(cell, shape), Choice.of(cell, shape, limits, variant)
        plan = choice.plan
        measured = measure(cell, shape, plan) if measure and plan else None
        kernels = _kernels(cell, shape, limits, choice, measured)
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
            measured=measured,
            answers=answers(card, choice, tuple(k.timeline for k in kernels)),
        )

    # What takes a compiler is made where the page needs it: a notebook shows the card alone.

    @cached_property
    def rooflines(self) -> Rooflines | None:
        """Of the kernels, and other packages; None without a plan."""
        plan = self.choice.plan
        if plan is None:
            return None
        both = zip((plan.forward, plan.backward), self.kernels, strict=True)
        parts = tuple((kernel_plan, k.chip, k.timeline) for kernel_plan, k in both)
        return rooflines_of(self.cell, self.shape, self.limits, parts)

    @cached_property
    def accuracy(self) -> Accuracy:
        """The error over time."""
        if self.measured is None:
            return accuracy_of(self.cell, self.shape)
        return accuracy_of(self.cell, self.shape, self.measured.errors, self.measured.where)

    @cached_property
    def code(self) -> Code:
        """The texts of its kernels, with the terms of each line."""
        return Code.of(self.cell, self.choice.plan, self.terms)

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
            "plan": plan and {d: str(plan.kernel(d)) for d in DIRECTIONS},
            "refused": self.choice.error and self.choice.error.found,
            "candidates": {
                d: [c._asdict() for c in cs] for d, cs in self.choice.candidates.items()
            },
            "kernels": [
                {
                    "direction": kernel.direction,
                    "estimated_ns_per_step": kernel.timeline.total,
                    "measured_ns_per_step": kernel.timeline.measured,
                    "measured_on": self.measured and self.measured.where,
                    "parts": [span._asdict() for span in kernel.timeline.spans],
                    "moves": [move._asdict() for move in kernel.chip.moves],
                }
                for kernel in self.kernels
            ],
            "compiled": [use._asdict() for use in self.code.uses],
            "errors": self.accuracy.plot
            and {curve.name: curve.points for curve in self.accuracy.plot.curves},
            "texts": {
                text.title: "\n".join(line.text for line in text.lines) for text in self.code.texts
            },
        }


def _kernels(
    cell: CellSpec,
    shape: Shape,
    limits: Limits,
    choice: Choice,
    measured: Measured | None,
) -> tuple[Kernel, ...]:
    if choice.plan is None:
        return ()
    times = (measured and measured.nanoseconds) or (None, None)
    return tuple(
        Kernel(
            plan.direction,
            plan.kind,
            (plan.mapping, plan.sizes),
            plan.binding,
            Chip.of(cell, shape, limits, plan),
            timeline_of(cell, shape, limits, plan)._replace(measured=time),
        )
        for plan, time in zip((choice.plan.forward, choice.plan.backward), times, strict=True)
    )
