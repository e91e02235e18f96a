"""`rnnc.convert`: the recurrent modules of a model on the kernels, in place, with a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from ....errors import TensorError
from ...call.options import check_flag
from ..base import OnKernels
from ..own import why_no_kernels
from .faster import DECIDED_ON, TABLE, faster_by_torch
from .plain import CLASSES, change_class


@dataclass(frozen=True)
class Report:
    """Changes that `rnnc.convert` made to the recurrent modules of a model. Its `str` is a table.

    Attributes:
        replaced: the old and the new class of each module that has a new one, by its name.
        left: why each other module was left, by its name.
    """

    replaced: dict[str, tuple[str, str]]
    left: dict[str, str]

    def __str__(self) -> str:
        rows = [(name or "(model)", *classes) for name, classes in self.replaced.items()]
        blocks = [_table(("module", "was", "is"), rows)] if rows else []
        if self.left:
            left = [(name or "(model)", why) for name, why in self.left.items()]
            blocks.append(_table(("left", "why"), left))
        if any("faster" in why for why in self.left.values()):
            blocks.append(
                f"Decided by {DECIDED_ON}, as measured: {TABLE}. force=True converts these too."
            )
        return "\n\n".join(blocks) or "no recurrent modules of torch"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


_TORCHS = {cls: torchs for torchs, both in CLASSES.items() for cls in (torchs, *both)}
_NAMES = frozenset(cls.__name__ for cls in CLASSES)


def convert(
    model: nn.Module, isinstance: bool = True, force: bool = False, back: bool = False
) -> Report:
    """Run the recurrent modules of a model on the kernels of rnnc, in place.

    Each module whose class is exactly torch's `LSTM`, `GRU`, `RNN`, `LSTMCell`, `GRUCell` or
    `RNNCell` gets the class of `rnnc.nn` with that name. Nothing else changes: parameters, their
    values, the state dict, hooks, and whoever refers to the module, an optimizer for example.
    The model itself may be such a module.

    Call it after the model is on its device: where torch is faster there, a module is left.

    Args:
        model: any module.
        isinstance: whether the new classes are subclasses of torch's. `torch.compile` runs those
            outside of its graphs, unless `torch._dynamo.config.allow_rnn` is set. With False the
            modules are no subclasses, and `torch.compile(model, fullgraph=True)` traces them.
        force: whether modules are converted where torch is faster, too.
        back: whether the modules of `rnnc.nn` get torch's classes again.

    Returns:
        A report with two dicts by the modules' names: `replaced`, with the old and the new class,
        and `left`, with the reason. Its `str` is a table. Where torch is faster is decided by a
        module's class, directions, units, dtype and device, not by batch or steps.

    Raises:
        TensorError: `model` is no module, or an option is not True or False.

    Example:
        >>> import torch, rnnc
        >>> model = torch.nn.ModuleDict({"a": torch.nn.GRU(3, 4), "b": torch.nn.Linear(4, 2)})
        >>> print(rnnc.convert(model))
        module  was           is
        a       torch.nn.GRU  rnnc.nn.GRU
        >>> print(rnnc.convert(model, back=True))
        module  was          is
        a       rnnc.nn.GRU  torch.nn.GRU
    """
    if not _is_module(model):
        found = type(model).__name__
        raise TensorError("model", found, "a torch.nn.Module", "rnnc.convert(model) of the model")
    for name, flag in {"isinstance": isinstance, "force": force, "back": back}.items():
        check_flag(name, flag)
    replaced: dict[str, tuple[str, str]] = {}
    left: dict[str, str] = {}
    for name, module in list(model.named_modules()):
        torchs, own = _TORCHS.get(type(module)), type(module)
        if torchs is None:
            to, why = own, _why_not_back(module) if back else _why_not(module)
        else:
            to = torchs if back else CLASSES[torchs][0 if isinstance else 1]
            why = None if back or own is not torchs else _why_left(module, force)
        if why is not None:
            left[name] = why
        elif to is not own:
            replaced[name] = _full_name(own), _full_name(to)
            change_class(module, to)
    return Report(replaced, left)


def _is_module(model: object) -> bool:
    return isinstance(model, nn.Module)  # a name that an argument of `convert` hides


def _why_not(module: nn.Module) -> str | None:
    """Return the reason why a module of another class is left; None if torch has no such module."""
    cls = type(module)
    if isinstance(module, OnKernels):
        return None
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        return _of_own_class(module, lambda base: base.__module__.startswith("torch.nn."))
    if isinstance(module, torch.jit.ScriptModule):
        return "compiled by torch.jit" if module.original_name in _NAMES else None
    if cls.__name__ in _NAMES and cls.__module__.startswith("torch."):
        return "quantised" if "quant" in cls.__module__ else f"{_full_name(cls)}"
    return None


def _why_not_back(module: nn.Module) -> str | None:
    """Return the reason why a module with its own class stays on the kernels; None for others."""
    return _of_own_class(module, _TORCHS.__contains__) if isinstance(module, OnKernels) else None


def _of_own_class(module: nn.Module, is_known: Callable[[type], bool]) -> str:
    """Return the reason why a module keeps a class whose base users know."""
    if is_parametrized(module):
        return "parametrized, which gives it a class of its own"
    base = next(filter(is_known, type(module).__mro__))
    return f"a subclass of {_full_name(base)}, which may compute something else"


def _why_left(module: nn.Module, force: bool) -> str | None:
    """Return the reason why a module of torch's own class is left; None if it is not."""
    if "forward" in module.__dict__:
        return "the module has a forward of its own, which calls torch's"
    if force:
        return None
    weight = next((p for name, p in module.named_parameters() if "weight_hh" in name), None)
    if not isinstance(weight, Tensor) or weight.device.type == "meta":
        return None
    return why_no_kernels(weight.device, weight.dtype) or faster_by_torch(module, weight)


def _full_name(cls: type) -> str:
    """Return the name by which users know a class."""
    room = "torch.nn" if cls.__module__.startswith("torch.nn.") else cls.__module__
    return f"{room}.{cls.__qualname__}"
