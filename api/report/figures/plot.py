"""Logarithmic plots as coordinates, which the templates draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 440, 270, 64, 40, 12, 12


class Curve(NamedTuple):
    """A line through points.

    Attributes:
        name: its label.
        points: x and y.
    """

    name: str
    points: tuple[tuple[float, float], ...]


class Dot(NamedTuple):
    """A point with a label.

    Attributes:
        name: its label.
        x: in the units of the axis.
        y: in the units of the axis.
        other: whether it is of another package.
    """

    name: str
    x: float
    y: float
    other: bool = False


class Tick(NamedTuple):
    """A mark of an axis.

    Attributes:
        at: in pixels.
        label: its text.
    """

    at: float
    label: str


@dataclass(frozen=True)
class Plot:
    """A plot with two logarithmic axes.

    Attributes:
        title: of the plot.
        x_label: of the horizontal axis.
        y_label: of the vertical axis.
        curves: lines.
        dots: points.
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    dots: tuple[Dot, ...]

    @cached_property
    def _ranges(self) -> tuple[tuple[float, float], tuple[float, float]]:
        points = [p for curve in self.curves for p in curve.points]
        points += [(dot.x, dot.y) for dot in self.dots]
        (x0, x1), (y0, y1) = (_range([p[axis] for p in points]) for axis in (0, 1))
        return (x0, x1), (y0 - 0.08, y1 + 0.12)

    def x(self, value: float) -> float:
        """Pixels from the left."""
        low, high = self._ranges[0]
        return round(LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self._ranges[1]
        part = (math.log10(value) - low) / (high - low)
        return round(HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP), 1)

    def line(self, curve: Curve) -> str:
        """The points of a line, for an SVG polyline."""
        return " ".join(f"{self.x(x)},{self.y(y)}" for x, y in curve.points)

    def below(self, dot: Dot) -> bool:
        """Return True if the label of a point is below it: with a point above, and none below."""
        near = [d for d in self.dots if abs(self.x(d.x) - self.x(dot.x)) < WIDTH / 3]
        room = self.y(dot.y) + 18 <= HEIGHT - BOTTOM
        return room and len(near) > 1 and dot is min(near, key=lambda d: d.y)

    @property
    def x_ticks(self) -> list[Tick]:
        """Marks of the horizontal axis."""
        return [Tick(self.x(v), _label(v)) for v in _marks(*self._ranges[0])]

    @property
    def y_ticks(self) -> list[Tick]:
        """Marks of the vertical axis."""
        return [Tick(self.y(v), _label(v)) for v in _marks(*self._ranges[1])]

    @property
    def box(self) -> dict[str, int]:
        """The sizes of the drawing."""
        return {
            "width": WIDTH,
            "height": HEIGHT,
            "left": LEFT,
            "right": WIDTH - RIGHT,
            "top": TOP,
            "bottom": HEIGHT - BOTTOM,
        }


def _range(values: list[float]) -> tuple[float, float]:
    low, high = math.log10(min(values)), math.log10(max(values))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _marks(low: float, high: float) -> list[float]:
    """Powers of ten, or more marks where there are few."""
    for factors in ((1,), (1, 3), (1, 2, 5)):
        exponents = range(math.floor(low), math.ceil(high) + 1)
        found = [f * 10.0**e for e in exponents for f in factors]
        inside = [v for v in found if low - 1e-9 <= math.log10(v) <= high + 1e-9]
        if len(inside) >= 3:
            break
    every = max(1, math.ceil(len(inside) / 7))
    return inside[::every]


def _label(value: float) -> str:
    if 0.001 <= value < 100_000:
        return f"{value:,.10g}"
    return f"1e{round(math.log10(value))}"
