"""The sliders of a plan's sizes, and its GPU and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from ..codegen.cuda.limits import PRESETS

# The slider stops at these. The field beside it takes any number up to the last one.
_STOPS = {
    "heads": ("Heads", (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)),
    "head_dim": (
        "Units per head",
        (8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096),
    ),
    "batch": ("Batch rows", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
}
_START = {"heads": 1, "head_dim": 64, "batch": 16}
_DTYPES = ["bfloat16", "float16", "float32", "float64"]


class Sizes:
    """The controls of the sizes, and what they say.

    Attributes:
        chosen: by the names of `Question`.
        box: the element that holds the controls.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.chosen: dict[str, Any] = {**_START, "gpu": "H200", "dtype": "bfloat16"}
        self._changed = changed
        with ui.element("div").classes("sizes").props('role=group aria-label="Sizes"') as self.box:
            for key in _STOPS:
                self._slider(key)
            names = [limits.name for limits in PRESETS]
            first = next(name for name in names if name.startswith("H200"))
            self._choice("gpu", "GPU", names, first)
            self._choice("dtype", "Type", _DTYPES, "bfloat16")

    def _slider(self, key: str) -> None:
        name, stops = _STOPS[key]
        with ui.element("div").classes("size"):
            ui.label(name).classes("name").props("aria-hidden=true")
            slider = ui.slider(min=0, max=len(stops) - 1, value=stops.index(_START[key]))
            slider.props(f'aria-label="{name}: slider" snap')
            number = ui.number(value=_START[key], min=1, max=stops[-1], precision=0)
            number.props(f'aria-label="{name}" dense outlined').classes("value")

        def nearest(value: float) -> int:
            return min(range(len(stops)), key=lambda place: abs(stops[place] - value))

        def moved(event: Any) -> None:
            if nearest(self.chosen[key]) != event.value:
                number.set_value(stops[int(event.value)])

        def typed(event: Any) -> None:
            if not event.value or not 1 <= event.value <= stops[-1]:
                return  # in the middle of typing
            if self.chosen[key] != int(event.value):
                self.chosen[key] = int(event.value)
                slider.set_value(nearest(event.value))
                self._changed()

        slider.on_value_change(moved)
        number.on_value_change(typed)

    def _choice(self, key: str, name: str, values: list[str], first: str) -> None:
        def picked(event: Any) -> None:
            self.chosen[key] = event.value
            self._changed()

        self.chosen[key] = first
        select = ui.select(values, value=first, label=name, on_change=picked)
        select.props(f'dense options-dense aria-label="{name}"').classes("pick-one")
