"""What a backward needs of a call: one order, for autograd to save and for the kernels to take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor


class Saved(NamedTuple):
    """The tensors that a backward needs of a call, as `run_backward` takes them.

    Attributes:
        wx: where the gates are computed again.
        b: likewise.
        R: (Gr, N, D, D), where the cell has dense gates.
        R_diag: (Gd, N, D), where it has diagonal gates.
        params: (N, D) each.
        initial: the states before the first step.
        states: the states at all steps, as far as they were stored.
        kept: what the forward kept.
    """

    wx: Tensor | None
    b: Tensor | None
    R: Tensor | None
    R_diag: Tensor | None
    params: tuple[Tensor, ...]
    initial: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    kept: Tensor

    def flat(self) -> tuple[Tensor | None, ...]:
        """For autograd to save; `saved_again` is the way back."""
        *single, params, initial, states, kept = self
        return (*single, *params, *initial, *states, kept)

    def named(self, results: Sequence[Tensor], has_bias: bool) -> tuple[Any, ...]:
        """What `run_backward` gave, for wx, R, R_diag, b, each param and each initial state: None
        in the place of what the call did not have.
        """
        d_wx, d_R, d_R_diag, d_b, d_params, *d_initial = results
        return (
            d_wx,
            None if self.R is None else d_R,
            None if self.R_diag is None else d_R_diag,
            d_b if has_bias else None,
            list(d_params.unbind(0)),
            d_initial,
        )


def saved_from(
    save: str,
    wx: Tensor,
    R: Tensor | None,
    R_diag: Tensor | None,
    b: Tensor | None,
    params: Sequence[Tensor],
    initial: Sequence[Tensor],
    results: Sequence[Tensor],
) -> Saved:
    """What a backward needs of a call, whose results `run_forward` gave.

    Args:
        save: of the call's choice.
        wx: the call's, as are R, R_diag, b, params and initial.
        R: likewise.
        R_diag: likewise.
        b: likewise.
        params: likewise.
        initial: likewise.
        results: the call's.
    """
    again = save == "states" and wx.device.type == "cuda"  # the gates are computed again
    return Saved(
        wx=wx if again else None,
        b=b if again else None,
        R=R,
        R_diag=R_diag,
        params=tuple(params),
        initial=tuple(initial),
        states=tuple(results[: len(initial)]),
        kept=results[-1],
    )


def saved_again(flat: Sequence[Any], count: int) -> Saved:
    """What `Saved.flat` gave, of a cell with so many states."""
    wx, b, R, R_diag, *rest, kept = flat
    split = len(rest) - 2 * count
    params, initial, states = rest[:split], rest[split : split + count], rest[split + count :]
    return Saved(wx, b, R, R_diag, tuple(params), tuple(initial), tuple(states), kept)
