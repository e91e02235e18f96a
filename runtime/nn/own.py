"""Choice between kernels and torch's own forward on the parameters of a module of torch."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...errors import TensorError
from ..call.marks import constant_in_graphs, outside_of_graphs
from ..call.plain import all_plain, is_transformed, is_watched
from ..process.caller import warn_once
from ..targets.registry import TARGETS, compiler_error, target_name, without_kernels

if TYPE_CHECKING:
    from .base import OnKernels
    from .sequences import Sequences

# What autocast casts to the dtype of a call.
_CAST = frozenset((torch.float32, torch.bfloat16, torch.float16))


def kernels_serve(tensors: Sequence[Tensor]) -> bool:
    """Return True if kernels, or their operators, can run a call; its input is the first tensor."""
    x = tensors[0]
    name = _target(x.device.type, x.device.index)
    if name is None or not _computes(name, x.dtype):
        return False
    if any(tensor.device != x.device for tensor in tensors):
        return False
    dtypes = {tensor.dtype for tensor in tensors}
    if torch.is_autocast_enabled(x.device.type):
        computed, _ = TARGETS[name].dtypes_of(x.dtype)
        if computed != torch.get_autocast_dtype(x.device.type) or not dtypes <= _CAST:
            return False
    elif len(dtypes) > 1:
        return False
    if is_transformed(tensors):
        return False
    return torch.compiler.is_compiling() or is_watched() or all_plain(tensors)


def why_no_kernels(device: torch.device, dtype: torch.dtype) -> str | None:
    """Return the reason why no kernel serves modules of a device and dtype; None if kernels do."""
    name = target_name(device.type)
    if name is None:
        return f"on {device.type}, which has no kernels"
    error = compiler_error(name, device.index)
    if error is not None:
        return f"no kernels for {name}: {error.found}"
    return None if _computes(name, dtype) else f"{dtype} on {name}, which has no kernels for it"


def _computes(name: str, dtype: torch.dtype) -> bool:
    """Return True if kernels compute in a dtype of a call."""
    computed, returned = TARGETS[name].dtypes_of(dtype)
    return returned == computed and computed in TARGETS[name].dtypes


@constant_in_graphs
def _target(device: str, index: int | None) -> str | None:
    """Return the name of the target with kernels for a device; None if there is none."""
    name = target_name(device)
    error = None if name is None else compiler_error(name, index)
    if name is None or error is None:
        return name
    warn_once(f"rnnc.nn runs torch's own forward, since there {without_kernels(name, error)}")
    return None


def is_strided(x: Any) -> bool:
    """Return True if a value is a tensor of the usual layout."""
    return isinstance(x, Tensor) and not x.is_nested and x.layout == torch.strided


def run_torch(module: OnKernels, input: Any, hx: Any) -> Any:
    """Run the forward of torch's class."""
    forward: Any = module.torch_class.forward
    if torch.compiler.is_compiling() or not getattr(input, "is_cuda", False):
        return forward(module, input, hx)
    with warnings.catch_warnings():
        # Parameters stay where they are; flatten_parameters would move them.
        warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous")
        return forward(module, input, hx)


def as_torch(module: Any) -> Any:
    """Return a module of torch's own class with the same parameters and attributes."""
    made = object.__new__(module.torch_class)
    made.__dict__.update(module.__getstate__())
    if isinstance(made, nn.RNNBase):
        # As `_init_flat_weights`, which would also move the parameters on a GPU.
        weights = [getattr(made, name, None) for name in made._flat_weights_names]
        made._flat_weights = weights
        made._flat_weight_refs = [None if w is None else weakref.ref(w) for w in weights]
    return made


def _call(module: Any, input: Any, hx: Any, masks: dict[str, Any]) -> Any:
    """Run a module's forward, of which Dynamo traces nothing."""
    return module.forward(input, hx, **masks)


between_graphs = outside_of_graphs(_call)


# Lengths, resets and reset values of the caller, None each if there are none.
Masks = tuple[Any, Any, Any]


def named_masks(masks: Masks) -> dict[str, Any]:
    """Return the masks that the caller gave, by the names of the arguments."""
    named = zip(("lengths", "reset", "reset_to"), masks, strict=True)
    return {name: value for name, value in named if value is not None}


def check_packed(masks: Masks) -> None:
    """Refuse lengths and resets of a `PackedSequence`."""
    for name in named_masks(masks):
        raise TensorError(
            name,
            "an argument beside a PackedSequence, which has lengths of its own",
            "a padded tensor and its lengths",
            "torch.nn.utils.rnn.pad_packed_sequence(input)",
        )


def run_without_kernels(module: Sequences, input: Any, hx: Any, masks: Masks) -> Any:
    """Run torch's own forward, whose errors come first; then refuse lengths and resets."""
    found = run_torch(module, input, hx)
    for name in named_masks(masks):
        raise TensorError(
            name,
            f"a call that no kernels serve: {_why(module, input)}",
            "a call on kernels; torch's own forward has neither lengths nor resets",
            "rnnc.RNN, which takes them everywhere",
        )
    return found


def _why(module: Sequences, input: Any) -> str:
    """Return the reason why kernels do not serve a call."""
    if module.proj_size:
        return "proj_size"
    why = why_no_kernels(input.device, input.dtype) if isinstance(input, Tensor) else None
    if why is not None:
        return why
    if isinstance(input, Tensor) and 0 in input.shape:
        return "an empty tensor"
    return "autocast, a trace, a transform of torch.func, a subclass of Tensor or several dtypes"
