"""The CPU as a target: its dtypes, the layouts of its tensors, and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...cellspec.cell import CellSpec
from ...codegen.shape import Save
from ..call.call import Call
from ..call.facts import facts_of
from ..call.layer_call import LayerCall
from ..program.seen import NEVER, Replays
from ..targets.target import Target
from . import kernels
from .compile import COMPUTED, check_compiler, cpu_library, plan_of
from .inputs import project, project_at, project_gradients, rounds, settings_of_torch
from .step import run_step, run_step_backward
from .tasks import multiplies_features


class CpuTarget(Target):
    """C++ kernels. wx lies as [T, B, head, gate, unit], which vectorises over units."""

    device = "cpu"
    dtypes: tuple[torch.dtype, ...] = COMPUTED
    takes_masks = True
    takes_inputs = True
    takes_stages = True
    takes_results = True
    reads_by_address = True
    takes_steps = True
    most_shared = 2**18
    # What the kernels do, each as `Target` says it.
    rounds = staticmethod(rounds)
    project = staticmethod(project)
    project_at = staticmethod(project_at)
    project_gradients = staticmethod(project_gradients)
    forward = staticmethod(kernels.forward)
    forward_of_features = staticmethod(kernels.forward_of_features)
    backward = staticmethod(kernels.backward)
    sequence = staticmethod(kernels.run_sequence)
    step = staticmethod(run_step)
    step_backward = staticmethod(run_step_backward)

    def find_compiler(self, index: int | None) -> None:
        """Raise a `NoCompilerError` without a compiler, a `CompileError` for a broken one."""
        check_compiler()

    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        """Return the dtype of the computation, float32 for half precision, and of results."""
        half = dtype in (torch.float16, torch.bfloat16)
        return torch.float32 if half else dtype, dtype

    def shared_state(self, like: Tensor, shape: tuple[int, ...], value: float) -> Tensor:
        """Return a state of one value, which all calls share."""
        return _constant(like.dtype, shape, value)

    def replays(self, call: Call) -> Replays:
        """Return what records calls and replays them; none does a step, which is one call of C."""
        return NEVER if call.single else Replays(settings_of_torch)

    def saved_shape(self, cell: CellSpec, sizes: Sequence[int], save: Save) -> tuple[int, ...]:
        """Return the shape of `Forward.saved` for the sizes T, B, N and D."""
        steps, batch, heads, dim = sizes
        kept = 0 if self.computes_gates_again(save) else steps
        return (kept, batch, heads, *facts_of(cell).kept_shape(dim))

    def load_ahead(
        self, layer_call: LayerCall, call: Call, steps: int, batch: int, like: Tensor
    ) -> None:
        """Compile and load the kernels of a call, of one direction of time, before it is made."""
        plan = plan_of(like.dtype, layer_call.choice.reverse, masked=layer_call.masked)
        cpu_library(layer_call.cell, plan)

    def takes_features(self, layer_call: LayerCall, x: Tensor, weight: Tensor) -> bool:
        """Return True if `forward_of_features` is faster than the product and `forward`."""
        # None of these is in that kernel.
        others = layer_call.for_backward or layer_call.masked or layer_call.cell.inputs
        return not others and multiplies_features(x.shape[0], x.shape[1], weight.numel())


@lru_cache(maxsize=64)
def _constant(dtype: torch.dtype, shape: tuple[int, ...], value: float) -> Tensor:
    """Return a tensor of one value, made once, whatever modes the first call runs under."""
    with torch.inference_mode(False), _disable_current_modes():
        return torch.full(shape, value, dtype=dtype, device="cpu")
