"""Recurrent layers of a model, and the shapes that they get, found without a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.nn.utils.rnn import PackedSequence

from ...cellspec.errors import kind_of
from ...errors import TensorError
from ..call.settings import Settings
from ..module.rnn import RNN
from ..nn.conversion.faster import kernels_project
from ..nn.sequences import Sequences
from ..targets.target import Target


class ModuleCall(NamedTuple):
    """Call of a module over time, with this rank's heads if they are spread over ranks.

    It is `masked` with lengths or resets. `apart` says that directions are always two calls.
    """

    settings: Settings
    steps: int
    batch: int
    dtype: torch.dtype
    device: torch.device
    masked: bool
    apart: bool

    def like(self, target: Target) -> Tensor:
        """Return an empty tensor of the dtype that the target computes in, on the call's device."""
        return torch.empty(0, dtype=target.dtypes_of(self.dtype)[0], device=self.device)


def calls_of(
    module: nn.Module,
    inputs: Sequence[Any],
    options: Mapping[str, Any],
    dtype: torch.dtype | None,
) -> list[ModuleCall]:
    """Return the calls of all recurrent layers in a forward of a model, or of one layer.

    Inputs, also those by name, are shapes, or tensors of any device. `dtype` is that of the weights
    in a call, if it is not that of the parameters.
    """
    if not isinstance(module, nn.Module):
        raise TensorError("module", kind_of(module), "an nn.Module", 'rnnc.RNN("lstm", 10, 8)')
    layers = [each for each in module.modules() if isinstance(each, RNN | Sequences)]
    if not layers:
        write = "rnnc.convert(model), or a model with rnnc.RNN or a module of rnnc.nn"
        raise TensorError("module", "a module without recurrent layers", "one with some", write)
    found: list[ModuleCall] = []
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        first = next(module.parameters(), None)
        given = [_fake(mode, f"inputs[{i}]", each, first) for i, each in enumerate(inputs)]
        named = {name: _fake(mode, name, each, first) for name, each in options.items()}
        if isinstance(module, RNN | Sequences):
            _note(module, found, dtype, *given, **named)
        else:
            with _stubs(layers, found, dtype):
                _run(module, mode, given, named)
    return found


def _run(module: nn.Module, mode: FakeTensorMode, given: Any, named: Any) -> None:
    """Run the forward of a model on tensors without values; recurrent layers only take notes."""
    sharded = [name for name, each in module.named_modules() if hasattr(each, "unshard")]
    if sharded:
        raise TensorError(
            "module",
            f"a model that fully_shard has sharded, at {sharded[0] or 'its root'!r}",
            "the same model before fully_shard, or one of its recurrent layers",
            "rnnc.warmup(model, ...) ahead of fully_shard(model)",
        )
    if isinstance(module, nn.parallel.DistributedDataParallel):
        module = module.module
    module = getattr(module, "_orig_mod", module)  # what torch.compile has wrapped
    own = [*module.named_parameters(), *module.named_buffers()]
    weights: dict[str, Tensor] = {name: mode.from_tensor(each) for name, each in own}
    try:
        torch.func.functional_call(module, weights, tuple(given), named)
    except TensorError:
        raise
    except Exception as error:
        raise TensorError(
            "module",
            f"a forward that does not run on tensors without values: {type(error).__name__}:"
            f" {error}",
            "a forward that depends on shapes alone, or a recurrent layer",
            "rnnc.warmup(model.rnn, (T, B, input)) for each layer",
        ) from error


def _fake(mode: FakeTensorMode, name: str, given: Any, like: Tensor | None) -> Any:
    """Return a shape, or a tensor, as a tensor without values."""
    if isinstance(given, FakeTensor) or given is None:
        return given
    device = torch.device("cpu") if like is None else like.device
    if isinstance(given, Tensor):
        return torch.empty(given.shape, dtype=given.dtype, device=device)
    if isinstance(given, tuple | list | torch.Size) and all(isinstance(n, int) for n in given):
        if any(n < 0 for n in given):
            raise TensorError(name, repr(tuple(given)), "sizes of at least 0", "(T, B, input)")
        floating = like is not None and like.is_floating_point()
        dtype = like.dtype if like is not None and floating else torch.get_default_dtype()
        return torch.empty(tuple(given), dtype=dtype, device=device)
    write = 'torch.empty(shape, dtype=..., device="meta") for what is not floating point'
    raise TensorError(name, kind_of(given), "a shape, or a tensor of it", write)


@contextmanager
def _stubs(
    layers: Sequence[nn.Module], found: list[ModuleCall], dtype: torch.dtype | None
) -> Iterator[None]:
    """Let recurrent layers note their calls, and compute nothing."""
    for layer in layers:
        layer.__dict__["forward"] = partial(_note, layer, found, dtype)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]


def _note(
    layer: Any,
    found: list[ModuleCall],
    dtype: torch.dtype | None,
    x: Any = None,
    states: Any = None,
    **more: Any,
) -> Any:
    """Add a call of a layer to `found`, in place of its forward; return results of its shapes."""
    wanted = f"({'B, T' if layer.batch_first else 'T, B'}, {layer.input_size})"
    where, write = "x of a recurrent layer", f"rnnc.warmup(layer, {wanted})"
    if isinstance(x, PackedSequence) or not isinstance(x, Tensor):
        raise TensorError(where, kind_of(x), f"a tensor of {wanted}", write)
    if x.ndim not in (2, 3) or x.shape[-1] != layer.input_size:
        raise TensorError(where, f"shape {tuple(x.shape)}", f"a tensor of {wanted}", write)
    single, swapped = x.ndim == 2, x.ndim == 3 and layer.batch_first
    steps, batch = (len(x), 1) if single else x.shape[:2][:: -1 if swapped else 1]
    weight = next(layer.parameters())
    computed = dtype or weight.dtype
    if torch.is_autocast_enabled(x.device.type) and computed != torch.float64:
        computed = torch.get_autocast_dtype(x.device.type)
    settings = settings_of(layer)
    if settings is not None:
        masked = any(more.get(name) is not None for name in ("lengths", "reset", "reset_to"))
        given = more.get("inputs") or {}
        inputs = [given.get(each.name) for each in settings.cell.inputs]
        settings = settings.with_gradients([i is not None and i.requires_grad for i in inputs])
        apart = getattr(layer, "directions_apart", False)
        sizes = int(steps), int(batch)  # numbers, where a model has symbols
        found.append(ModuleCall(settings, *sizes, computed, weight.device, masked, apart))
    return _results(layer, x.to(computed), batch, single, bool(more.get("all_states")))


def _results(layer: Any, x: Tensor, batch: int, single: bool, every: bool) -> Any:
    """Return results of a layer without values."""
    parts, rows, outer = 2 if layer.bidirectional else 1, () if single else (batch,), x.shape[:-1]

    def last(sizes: Iterable[int]) -> tuple[Tensor, ...]:
        return tuple([x.new_empty(layer.num_layers * parts, *rows, n) for n in sizes])

    if isinstance(layer, Sequences):
        width = layer.proj_size or layer.hidden_size
        count = 1 + (layer.mode == "LSTM")
        states = last([width, layer.hidden_size][:count])
        return x.new_empty(*outer, width * parts), layer._hx_of(states)
    sharded = getattr(getattr(layer, "_options", None), "output_layouts", None)
    split = sharded is not None and sharded.is_shard()
    whole, widths = layer.heads * layer.proj_size or layer.hidden_size, layer._widths
    y = x.new_empty(*outer, layer._features if split else whole * parts)
    if not every:
        return y, last(widths.values())
    over_time = {name: x.new_empty(*outer, n * parts) for name, n in widths.items()}
    return y, last(widths.values()), over_time


def settings_of(layer: Any) -> Settings | None:
    """Return the settings that a layer runs on this rank; None for one without kernels."""
    if isinstance(layer, Sequences):
        settings: Settings | None = layer._settings()
        if settings is None or not layer.proj_size:
            return settings
        weight = next(cast(nn.Module, layer).parameters())
        serve = kernels_project(weight.device.type, weight.dtype, layer.hidden_size, 1, True)
        return settings._replace(layers=1, dropout=0.0) if serve else None
    cell = layer.cell if layer.training else layer._mean
    if hasattr(layer, "_one_layer"):  # its heads are spread over ranks
        settings = layer._one_layer(cell)
    else:
        settings, own = layer._settings(False, cell), layer._projected(cell)
        settings = settings if own is None else settings._replace(cell=own.recurrent, layers=1)
    return settings
