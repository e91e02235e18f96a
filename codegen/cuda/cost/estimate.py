"""The estimated time of a step, by its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

# A plan serves calls of any number of steps, so it is chosen for calls of so many. For longer calls
# the start hardly matters, and a single step has kernels of its own. Plans of cells without dense
# matrices are chosen for the steps of the call.
USUAL_STEPS = 64


class Step(Protocol):
    """The cost model of one kernel: the time per step in ns, with or without some parts."""

    def __call__(self, exchange: bool = True, product: bool = True) -> float:
        """The time.

        Args:
            exchange: whether the exchange takes time.
            product: whether the product takes time.
        """
        ...


@dataclass(frozen=True)
class StepEstimate:
    """The estimated time of one kernel, in ns: three parts per step, and a part per call.

    Attributes:
        exchange: passing states, or their gradients, to the threads that multiply them: barriers,
            messages between blocks, launches.
        product: the product with R, including the reads of R that are not from registers.
        pointwise: the cell's equations, and the reads and writes of inputs and results.
        start: per call, before its first step: the launches, and the reads of R into registers.
        steps: of the call that `cost` is the cost of.
    """

    exchange: int = 0
    product: int = 0
    pointwise: int = 0
    start: int = 0
    steps: int = USUAL_STEPS

    @classmethod
    def of(cls, step: Step, start: float = 0, steps: int = USUAL_STEPS) -> StepEstimate:
        """The parts of a step, each the time that the step loses without it.

        First the exchange is left out, then the product too; the rest is the pointwise part. So a
        part that is hidden under others counts for nothing, and the parts add up.

        Args:
            step: the cost model of the kernel.
            start: the time before the first step.
            steps: of the call that plans are compared for.

        Example:
            >>> from rnnc.codegen.cuda.cost.estimate import StepEstimate
            >>> def step(exchange=True, product=True):
            ...     return max(60 * exchange + 20 * product + 40, 70)
            >>> StepEstimate.of(step)
            StepEstimate(exchange=50, product=0, pointwise=70, start=0, steps=64)
        """
        whole, without_exchange = round(step()), round(step(exchange=False))
        pointwise = round(step(exchange=False, product=False))
        parts = (whole - without_exchange, without_exchange - pointwise, pointwise)
        return cls(*parts, round(start), steps)

    @property
    def total(self) -> int:
        """The time per step: the sum of its parts."""
        return self.exchange + self.product + self.pointwise

    @property
    def cost(self) -> int:
        """Time per step of a call of `steps` steps, by which plans are compared."""
        return self.total + round(self.start / self.steps)

    def of_call(self, steps: int) -> int:
        """The time of a call.

        Args:
            steps: of the call.
        """
        return self.start + steps * self.total

    def __str__(self) -> str:
        parts = f"{self.exchange} exchange + {self.product} product + {self.pointwise} pointwise"
        return f"{parts}, {self.start} per call"
