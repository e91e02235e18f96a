"""Target of a GPU: its dtypes, the layouts of its tensors, and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.request import steps_like
from ...codegen.shape import MOST_COUNT, Direction, Save
from ..call.call import Call
from ..call.facts import facts_of
from ..call.layer_call import Choice, LayerCall, saving_again
from ..call.masks import Masks
from ..call.requests import LayerBackward, LayersCall, LayersRead
from ..call.tensors import DTYPES, Forward, Gradients, Saved, ScanInputs, SomeTensors
from ..program.seen import Replays, forget_replays
from ..store.tuned import on_remember
from ..targets.by_torch import ONE_LANE, Lanes, Packing
from ..targets.target import Target
from . import ahead, kernels
from .choose import PlanQuestion, joins, runs_as_one_row
from .directions.lanes import STEPS_OF_A_LANE, TwoLanes
from .driver.device import find_cuda
from .driver.room import stream_with_room
from .driver.streams import current_stream, is_capturing
from .memory import constant, freed_with_memory
from .prepared import Prepared
from .products import inputs as products
from .products import rows
from .products.multiply import multiplier, rounds
from .products.rearrange import CudaMoves, begin_kernel
from .products.rows import CudaPacking
from .ready import check_counts, ready_for
from .saved import saved_shape
from .step.backward import backward_step
from .step.forward import forward_step
from .step.graph import capture
from .together import issued_together
from .wavefront.passes import backward_layers, forward_layers


class CudaTarget(Target):
    """CUDA kernels. wx lies as [T, B, head, unit, gate]: a thread reads all gates of its unit."""

    device = "cuda"
    takes_masks = True
    takes_inputs = True
    takes_stages = True
    takes_results = True
    takes_steps = True
    at_once = True
    most_shared = 2 * 2**20
    variants_of_wx = ("auto", "walk", "scan")
    dtypes = tuple(DTYPES)
    # What the kernels do, each as `Target` says it.
    find_compiler = staticmethod(find_cuda)
    rounds = staticmethod(rounds)
    moves = staticmethod(CudaMoves)
    made_masks = staticmethod(rows.made_masks)
    rows_that_run = staticmethod(rows.rows_that_run)
    project = staticmethod(products.project)
    project_at = staticmethod(products.project_at)
    project_gradients = staticmethod(products.project_gradients)
    forward_layers = staticmethod(forward_layers)
    step = staticmethod(forward_step)
    step_backward = staticmethod(backward_step)
    capture = staticmethod(capture)
    asked_ahead = staticmethod(ahead.asked_ahead)
    load_ahead = staticmethod(ahead.load_ahead)

    def begin(self, dtype: torch.dtype, index: int | None) -> None:
        """Begin to compile what every call needs, while the host derives and plans."""
        begin_kernel(dtype, torch.cuda.current_device() if index is None else index)

    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        """Return the dtype of a call's computation, and that of its results: autocast's, if any."""
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
        return dtype, dtype

    def shared_state(self, like: Tensor, shape: tuple[int, ...], value: float) -> Tensor:
        """Return a state of one value, which calls on a stream share outside of a capture."""
        index = like.device.index
        if is_capturing(index):
            return like.new_full(shape, value)
        return constant(like.dtype, like.device, current_stream(index), shape, value)

    def replays(self, call: Call) -> Replays:
        """Return the store that records calls and replays them, on the stream that each uses."""
        return Replays(stream_with_room, issued_together)

    def runs_as_one_row(
        self, cell: CellSpec, choice: Choice, wx: Tensor, batch: int, steps: int
    ) -> bool:
        """Return True if one row of a scan takes no longer than padded rows."""
        if wx.dtype not in self.dtypes:
            return False
        _, heads, dim, _ = wx.shape
        kind = wx.dtype, wx.device.index, choice, False
        question = PlanQuestion(cell, heads, dim, batch, *kind)
        return runs_as_one_row(question, len(wx), steps)

    def packing(self, starts: Tensor, sizes: tuple[int, int], total: int) -> Packing:
        """Return the copies of packed rows, on the device of `starts`."""
        kind = CudaPacking if starts.is_cuda else Packing
        return kind(starts, sizes, total)

    def lanes(self, like: Tensor, steps: int) -> Lanes:
        """Return the lanes of both directions: one, where a second stream gains too little."""
        return TwoLanes(like.device) if steps >= STEPS_OF_A_LANE else ONE_LANE

    def joins(self, layer_call: LayerCall, like: Tensor, batch: int, heads: int, dim: int) -> bool:
        """Return True if one call of both directions is better than a call of each."""
        return joins(layer_call, batch, heads, dim, like.dtype, like.device.index)

    def saved_shape(self, cell: CellSpec, sizes: Sequence[int], save: Save) -> tuple[int, ...]:
        """Return the shape of `Forward.saved`; the sizes are T, B, N and D."""
        steps, *rest = sizes
        return saved_shape(facts_of(cell), (steps if save == "gates" else 0, *rest))

    def forward(self, layer_call: LayerCall, inputs: ScanInputs, donated: bool = False) -> Forward:
        """Choose a plan and run the forward of a call with it."""
        wx, masks = inputs.wx, inputs.masks
        batch, steps, heads, dim, _ = wx.shape
        return kernels.forward(
            _ready(layer_call, "forward", wx, steps, (batch, heads, dim), masks),
            inputs,
            for_backward=layer_call.saves_gates,
            stored=layer_call.stored,
            donated=donated,
            reset_to=() if masks is None else self._resets(layer_call, masks, wx, (heads, dim)),
        )

    def backward(self, layer_call: LayerCall, backward: LayerBackward) -> Gradients:
        """Choose a plan and run the backward of a call with it."""
        saved = self._saved_again(layer_call, backward.saved)
        like, masks = saved.initial_states[0], saved.masks
        batch, heads, dim = like.shape
        steps = saved.wx.shape[1] if saved.again else len(saved.saved)
        ready = _ready(layer_call, "backward", like, steps, (batch, heads, dim), masks)
        run = kernels.Backward(
            ready,
            backward._replace(saved=saved),
            multiplier=multiplier(like.dtype, layer_call.tf32),
            reset_to=() if masks is None else self._resets(layer_call, masks, like, (heads, dim)),
        )
        return run.run()

    def backward_layers(self, asked: LayersCall, reads: LayersRead) -> bool:
        """Run the backward of all layers by a schedule; False where the caller runs each."""

        def layer(number: int) -> tuple[Saved, SomeTensors]:
            saved, d_last = reads.layer(number)
            return self._saved_again(asked.layer_call, saved), d_last

        return backward_layers(asked, reads._replace(layer=layer))

    def _saved_again(self, layer_call: LayerCall, saved: Saved) -> Saved:
        """Return what a forward saved; that of a cell with stages runs again if it saved states."""
        if not (saved.again and layer_call.cell.has_stages):
            return saved
        found, missing = self.forward(saving_again(layer_call), saved), cast(Any, None)
        return replace(saved, wx=missing, b=None, saved=found.saved)

    def _resets(
        self, layer_call: LayerCall, masks: Masks, like: Tensor, plane: tuple[int, int]
    ) -> Sequence[Tensor]:
        """Return the value of each state after a reset."""
        if masks.reset_to is not None:
            return masks.reset_to
        return self.initial_states(like, [state.init for state in layer_call.cell.states], plane)


def _ready(
    layer_call: LayerCall,
    direction: Direction,
    like: Tensor,
    steps: int,
    sizes: tuple[int, int, int],
    masks: Masks | None,
) -> Prepared:
    """Return a direction of a call, prepared; one look-up if the sizes have occurred before."""
    if steps > MOST_COUNT:
        check_counts(steps, *sizes[:2])
    masked = False if masks is None else masks.kind
    like_steps = steps_like(layer_call.cell, steps)
    return ready_for(
        layer_call, direction, *sizes, like.dtype, like.device.index, masked, like_steps
    )


on_remember(forget_replays)  # what was chosen before may be another plan
freed_with_memory(forget_replays)  # they keep constants
