"""What came back of the tensors that autograd kept, held against what was given to it.

Hooks on saved tensors (`torch.autograd.graph.saved_tensors_hooks`) offload them, compress them, or
give back what they like; kernels read them by their address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards

from ...cellspec.cell import CellSpec
from ...cellspec.errors import kind_of
from ..call import Call, backward_reads
from ..check import check_memory
from ..errors import TensorError
from ..store.facts import facts_of
from .plain import all_plain, treats_itself
from .saved import Saved


class Sizes(NamedTuple):
    """T, B, N and D of a call, and what its tensors are.

    Attributes:
        steps: T.
        batch: B.
        heads: N.
        dim: D.
        dtype: of all tensors.
        device: of all tensors.
    """

    steps: int
    batch: int
    heads: int
    dim: int
    dtype: torch.dtype
    device: torch.device


class Record(NamedTuple):
    """What a forward gave to autograd: its call and its wx say what all tensors are.

    Attributes:
        call: the call.
        shape: of wx.
        dtype: of all tensors.
        device: of all tensors.
    """

    call: Call
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    def checked(self, flat: Sequence[Tensor | None], saved: Saved) -> Saved:
        """The saved tensors as kernels can read them.

        Args:
            flat: what autograd gave back.
            saved: the same, by name.

        Raises:
            TensorError: one has another shape, dtype or device than before.
        """
        given = [t for t in flat if t is not None]
        key = (self, len(given))
        same = _SAME.get(key)
        if same is not None and same(*given) and _have_memory(given):
            return saved
        batch, steps, heads, dim, _ = self.shape
        sizes = Sizes(steps, batch, heads, dim, self.dtype, self.device)
        found = check_saved(self.call.cell, self.call.choice.save, sizes, saved)
        if all(new is old for new, old in zip(found.flat(), flat, strict=True)):
            if len(_SAME) >= _MOST_KEPT:
                _SAME.clear()
            guards = TensorGuards(*given, dynamic_dims_sizes=None, dynamic_dims_strides=None)
            _SAME[key] = guards.check
        return found


def _have_memory(tensors: Iterable[Tensor]) -> bool:
    """Whether none gave its memory back, as fully sharded modules do between calls."""
    return all(tensor.data_ptr() or not tensor.numel() for tensor in tensors)


# By record and number of tensors: whether tensors are of the types, dtypes, devices, sizes and
# strides of some that passed all checks. One call of C compares them; it holds no tensor.
_SAME: dict[tuple[Record, int], Callable[..., bool]] = {}
_MOST_KEPT = 1024


def sizes_of(saved: Saved) -> Sizes:
    """The sizes of a call, from what was saved of it alone.

    Raises:
        TensorError: there is no initial state of three axes, or nothing that says how many steps.
    """
    first = saved.initial[0] if saved.initial else None
    if first is None or first.ndim != 3:
        found = "none" if first is None else f"shape {tuple(first.shape)}"
        raise TensorError("initial", found, "(B, N, D) of each state", "what rnnc::scan took")
    timed, axis = (saved.kept, 0) if saved.wx is None else (saved.wx, 1)
    if timed.ndim != 5:
        raise TensorError(
            "kept" if saved.wx is None else "wx",
            f"shape {tuple(timed.shape)}",
            "five axes, one of them the steps",
            "what rnnc::scan gave",
        )
    batch, heads, dim = first.shape
    return Sizes(timed.shape[axis], batch, heads, dim, first.dtype, first.device)


def check_saved(cell: CellSpec, save: str, sizes: Sizes, saved: Saved) -> Saved:
    """Check what a backward reads of the forward, and make it such that kernels can read it.

    Args:
        cell: the cell.
        save: of the call's choice.
        sizes: of the call.
        saved: what came back.

    Raises:
        TensorError: a tensor is missing, or has another shape, dtype or device than the forward's.
    """
    steps, batch, heads, dim, *_ = sizes
    plane, rows = (heads, dim), (batch, heads, dim)
    on_gpu = sizes.device.type == "cuda"
    again = on_gpu and save == "states"
    dense, diagonal = len(cell.dense_pairs), len(cell.diagonal_pairs)
    kept_steps = 0 if again else steps
    saved_values = len(facts_of(cell).saved)
    kept = (dim, saved_values) if on_gpu else (saved_values, dim)
    names = [s.name for s in cell.states]
    counts = (len(saved.params), len(saved.initial), len(saved.states))
    if counts != (len(cell.params), len(names), len(names)):
        raise TensorError(
            "the saved tensors",
            f"{counts} params, initial states and states",
            f"{(len(cell.params), len(names), len(names))} of them, for {cell.name}",
            "what rnnc::scan took and gave, unchanged",
        )

    def one(name: str, tensor: Any, *shape: int, wanted: bool = True) -> Any:
        return _checked(name, tensor, shape, sizes) if wanted or tensor is not None else None

    inputs = len(cell.input_gates)
    return Saved(
        wx=one("wx", saved.wx, batch, steps, *plane, inputs, wanted=again),
        b=one("b", saved.b, len(cell.bias_gates), *plane, wanted=False),
        R=one("R", saved.R, dense, *plane, dim, wanted=bool(dense)),
        R_diag=one("R_diag", saved.R_diag, diagonal, *plane, wanted=bool(diagonal)),
        params=tuple(
            one(f"params[{p.name!r}]", t, *plane)
            for p, t in zip(cell.params, saved.params, strict=True)
        ),
        initial=tuple(
            one(f"initial[{n}]", t, *rows) for n, t in zip(names, saved.initial, strict=True)
        ),
        states=tuple(
            # What the backward does not read may be empty.
            one(f"states[{n}]", t, steps if read or t.shape[:1] != (0,) else 0, *rows)
            for n, t, read in zip(names, saved.states, backward_reads(cell), strict=True)
        ),
        kept=one("kept", saved.kept, kept_steps, batch, heads, *kept),
    )


def check_seeds(
    cell: CellSpec,
    sizes: Sizes,
    d_states: Sequence[Tensor | None],
    d_last: Sequence[Tensor | None],
) -> None:
    """Check the gradients that come in.

    Args:
        cell: the cell.
        sizes: of the call.
        d_states: of each state at all steps, (T, B, N, D).
        d_last: of each last state, (B, N, D).

    Raises:
        TensorError: their number, a shape, dtype or device is another.
    """
    steps, batch, heads, dim, *_ = sizes
    for kind, given, shape in (
        ("d_states", d_states, (steps, batch, heads, dim)),
        ("d_last", d_last, (batch, heads, dim)),
    ):
        if len(given) != len(cell.states):
            raise TensorError(
                kind,
                f"{len(given)} of them",
                f"{len(cell.states)}, one for each state",
                f"{kind}=[None] * {len(cell.states)}, and the gradients that you have",
            )
        for spec, tensor in zip(cell.states, given, strict=True):
            if tensor is not None:
                _checked(f"{kind}[{spec.name}]", tensor, shape, sizes)


def _checked(name: str, tensor: Any, shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    """The tensor, if it is what it was; a copy where kernels cannot read it as it lies there."""
    wanted = f"shape {shape}, {sizes.dtype}, on {sizes.device}: what the forward left"
    found = _found(tensor, shape, sizes)
    if found is not None:
        raise TensorError(
            f"{name} of a backward",
            found,
            wanted,
            "saved_tensors_hooks whose unpack gives back what pack took",
        )
    assert isinstance(tensor, Tensor)
    if not torch._is_zerotensor(tensor):
        check_memory(name, tensor)
    if all_plain((tensor,)):
        return tensor
    return tensor.detach().as_subclass(Tensor).resolve_neg().clone()


def _found(tensor: Any, shape: tuple[int, ...], sizes: Sizes) -> str | None:
    """What is wrong with a tensor, in words."""
    if not isinstance(tensor, Tensor):
        return kind_of(tensor)
    if tensor.is_nested:
        return "a nested tensor"
    if tuple(tensor.shape) != shape:
        return f"shape {tuple(tensor.shape)}"
    if tensor.dtype != sizes.dtype:
        return f"dtype {tensor.dtype}"
    if tensor.device != sizes.device:
        return f"device {tensor.device}"
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}"
    if treats_itself(tensor):
        return kind_of(tensor)
    return None


def plain_gradients(gradients: Iterable[Tensor | None]) -> list[Tensor | None]:
    """Incoming gradients as kernels can read them: zeros and negatives are written out."""
    return [g if g is None or all_plain((g,)) else g.resolve_neg().clone() for g in gradients]
