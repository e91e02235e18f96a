"""States before the first step that calls share, where a caller gives none: nobody writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..call.plain import all_plain, is_watched
from ..program.recorder import recording


def shared_states(
    like: Tensor,
    values: Sequence[float],
    shape: Sequence[int],
    most: int,
    constant: Callable[[tuple[int, ...], float], Tensor],
    capturing: Callable[[], bool] = lambda: False,
) -> list[Tensor]:
    """Return a state for each value: one for all calls, unless somebody could change or see it.

    Args:
        like: gives dtype and device.
        values: of each state.
        shape: of all of them.
        most: bytes of a state that is shared.
        constant: returns the state of a shape and a value, the same one for all calls.
        capturing: tells if memory belongs to a graph now. No compiler has to read it: it is asked
            last.
    """
    shape, recorder = tuple(shape), recording()
    if (
        torch.compiler.is_compiling()
        or math.prod(shape) * like.element_size() > most
        or not all_plain((like,))
        or (recorder is None and is_watched())
        or capturing()
    ):
        return [like.new_full(shape, value) for value in values]
    found = [constant(shape, value) for value in values]
    if recorder is not None:
        for state in found:
            recorder.keep(state)
    return found
