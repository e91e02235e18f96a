"""Target of a GPU: its dtypes, the layouts of its tensors, and its calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.shape import MOST_COUNT, Direction, Masked, Precision, Save
from ..call.call import Call
from ..call.layers import LayersCall, LayersRead
from ..call.masks import Masks
from ..call.plain import all_plain, is_watched
from ..call.tensors import Forward, Gradients, Saved, ScanInputs
from ..program.recorder import recording
from ..program.replays import Replays, forget_replays
from ..store.facts import facts_of
from ..store.tuned import on_remember
from ..targets.target import Target
from . import kernels
from .ahead import CudaAhead
from .choose import choose_plan
from .directions.target import CudaDirections
from .driver.device import find_cuda
from .driver.room import make_room
from .launch import CallSizes, is_here
from .memory.constants import constant
from .memory.kept import freed_with_memory
from .prepared import Prepared, prepare
from .products.inputs import CudaInputs
from .products.moves import CudaMoves
from .products.precision import multiplier, rounds
from .products.rearrange import begin_kernel
from .products.rows import CudaRows
from .step.target import CudaSteps
from .step_down import check_counts, with_room
from .wavefront.layers import backward_layers, forward_layers

_LARGEST_CONSTANT = 2 * 2**20  # bytes; filling more takes longer than a launch


class CudaTarget(CudaAhead, CudaInputs, CudaRows, CudaSteps, CudaDirections, Target):
    """CUDA kernels. wx lies as [T, B, head, unit, gate]: a thread reads all gates of its unit."""

    device = "cuda"
    takes_masks = True
    takes_inputs = True
    takes_steps = True
    at_once = True
    dtypes: tuple[torch.dtype, ...] = (
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.float16,
    )

    def find_compiler(self, index: int | None) -> None:
        """Check that kernels can be built for a device; None is the current one.

        Raises:
            NoCudaError: CuPy is missing, or the GPU is too old.
        """
        find_cuda(index)

    def begin(self, dtype: torch.dtype, index: int | None) -> None:
        """Begin to compile what every call needs, while the host derives and plans."""
        begin_kernel(dtype, torch.cuda.current_device() if index is None else index)

    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        """Return the dtype of a call's computation, and that of its results: autocast's, if any."""
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
        return dtype, dtype

    def initial_states(
        self, like: Tensor, values: Sequence[float], shape: Sequence[int]
    ) -> list[Tensor]:
        """Return the states before the first step where the caller gives none."""
        shape, recorder = tuple(shape), recording()
        shared = (
            not torch.compiler.is_compiling()
            and math.prod(shape) * like.element_size() <= _LARGEST_CONSTANT
            and all_plain((like,))
            and not (recorder is None and is_watched())
            and not torch.cuda.is_current_stream_capturing()
        )
        if not shared:
            return [like.new_full(shape, value) for value in values]
        stream = torch._C._cuda_getCurrentRawStream(like.device.index)
        found = [constant(like.dtype, like.device, shape, v, stream) for v in values]
        if recorder is not None:
            for state in found:
                recorder.keep(state)
        return found

    def replays(self) -> Replays:
        """Return the store that records calls and replays them, on the stream that each uses."""
        return Replays(_stream_of)

    def moves(self) -> CudaMoves:
        """Return a collector of copies into new tensors, by a launch for all of them."""
        return CudaMoves()

    def rounds(self, dtype: torch.dtype, precision: Precision) -> bool:
        """Return True if the products of a call may round factors of float32 to TF32."""
        return rounds(dtype, precision)

    def new_d_wx(self, like: Tensor, shape: Sequence[int], gates: int) -> Tensor:
        """Return an empty d_wx, (B, T, N, D, Gx), with the strides that `backward` gives it."""
        batch, steps, *rest = shape
        return like.new_empty(steps, batch, *rest).transpose(0, 1)

    def saved_shape(
        self, cell: CellSpec, sizes: Sequence[int], for_backward: bool, save: Save
    ) -> tuple[int, ...]:
        """Return the shape of `Forward.saved`; the sizes are T, B, N and D."""
        steps, *rest = sizes
        saves_gates = for_backward and save == "gates"
        return (steps if saves_gates else 0, *rest, len(facts_of(cell).saved))

    def computes_gates_again(self, save: Save) -> bool:
        """Return True if a backward computes the gates again, from wx and b."""
        return save == "states"

    def forward(self, call: Call, inputs: ScanInputs, donated: bool = False) -> Forward:
        """Choose a plan and run the forward of a call with it."""
        wx = inputs.wx
        batch, steps, heads, dim, _ = wx.shape
        ready = _ready(call, "forward", wx, batch, steps, heads, dim, inputs.masks)
        return kernels.forward(
            ready,
            inputs,
            for_backward=call.for_backward,
            stored=call.stored,
            donated=donated,
            reset_to=self._reset_values(call, inputs.masks, wx, (heads, dim)),
        )

    def backward(
        self,
        call: Call,
        saved: Saved,
        d_states: Sequence[Tensor | None],
        d_last: Sequence[Tensor | None],
        donated: bool,
    ) -> Gradients:
        """Choose a plan and run the backward of a call with it."""
        like = saved.initial_states[0]
        batch, heads, dim = like.shape
        steps = saved.saved.shape[0] if saved.wx is None else saved.wx.shape[1]
        ready = _ready(call, "backward", like, batch, steps, heads, dim, saved.masks)
        multiplies = multiplier(like.dtype, call.tf32)
        return kernels.backward(
            ready,
            saved,
            d_states,
            d_last,
            multiplier=multiplies,
            donated=donated,
            reset_to=self._reset_values(call, saved.masks, like, (heads, dim)),
        )

    def _reset_values(
        self, call: Call, masks: Masks | None, like: Tensor, plane: tuple[int, int]
    ) -> Sequence[Tensor]:
        """Return the value of each state after a reset; none without masks."""
        if masks is None or masks.reset_to is not None:
            return () if masks is None else masks.reset_to or ()
        return self.initial_states(like, [state.init for state in call.cell.states], plane)

    def forward_layers(
        self, asked: LayersCall, x: Tensor
    ) -> tuple[list[Forward], list[Tensor]] | None:
        """Run the forward of all layers, where they may run at once; else return None."""
        return forward_layers(asked, x, _ready, self.project_at)

    def backward_layers(
        self, asked: LayersCall, reads: LayersRead, finish: Callable[[int, Gradients], None]
    ) -> bool:
        """Run the backward of all layers, where they may run at once; else return False."""
        return backward_layers(asked, reads, finish, _ready)


def _stream_of(device: torch.device) -> int | None:
    """Return the stream to replay a call on, with room for its launches; None if there is none."""
    index = device.index
    if not is_here(index) or torch._C._cuda_isCurrentStreamCapturing():
        return None
    stream = torch._C._cuda_getCurrentRawStream(index)
    make_room(index, stream)
    return stream


def _ready(
    call: Call,
    direction: Direction,
    like: Tensor,
    batch: int,
    steps: int,
    heads: int,
    dim: int,
    masks: Masks | None = None,
) -> Prepared:
    """Return a direction of a call, prepared; one look-up if the sizes have occurred before."""
    if steps > MOST_COUNT:
        check_counts(steps, batch, heads)
    dtype, masked = like.dtype, False if masks is None else masks.kind
    return _prepared(call, direction, batch, heads, dim, dtype, like.device.index, masked)


@lru_cache(maxsize=2048)
def _prepared(
    call: Call,
    direction: Direction,
    batch: int,
    heads: int,
    dim: int,
    dtype: torch.dtype,
    device: int,
    masked: Masked,
) -> Prepared:
    """Choose a plan for a direction of a call, and prepare it."""
    check_counts(0, batch, heads)
    asked = (call.cell, heads, dim, batch, dtype, device, call.choice, call.tf32)
    plan = getattr(choose_plan(*asked, direction, masked), direction)
    ready = prepare(call.cell, plan, CallSizes(batch, heads, dim), device)
    if call.choice.variant != "auto":
        return ready
    return replace(ready, step_down=partial(with_room, asked=asked))


# What was chosen before may be another plan.
on_remember(_prepared.cache_clear)
on_remember(forget_replays)
freed_with_memory(forget_replays)  # they keep constants
