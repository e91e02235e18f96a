"""Base of styles: a module of one process becomes one whose heads are spread over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from ...cellspec.errors import kind_of
from ...errors import RnncError, TensorError
from ..module.rnn import RNN
from .exchange import agree
from .parallel import Parallel

_FIRST = "parallelize_module before fully_shard, DistributedDataParallel and an optimizer"


@dataclass(kw_only=True, eq=False)
class SpreadHeads(ParallelStyle):
    """Style of `parallelize_module` that keeps the heads of each rank in an `rnnc.RNN`.

    The module is the same on all ranks of a mesh of one dimension. All ranks take the weights of
    the rank `src_data_rank`; None keeps each one's own.
    """

    use_local_output: bool = True
    kind: ClassVar[type[Parallel]]  # the class that the module gets

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        mesh, kind = device_mesh, self.kind
        _check_mesh(mesh, kind.style)
        problem, facts = None, {}
        try:
            facts = _facts_of(module, mesh, kind)
        except RnncError as error:
            problem = error
        agree(mesh, facts, problem)
        assert isinstance(module, RNN)
        for named in module._all_weights():
            weight = module._parameters[named.attribute]
            assert weight is not None
            rows = distribute_tensor(weight, mesh, [Shard(0)], src_data_rank=self.src_data_rank)
            module.register_parameter(named.attribute, nn.Parameter(rows, weight.requires_grad))
        own = type(module)
        module.__class__ = type(own.__name__, (kind, own), {"__module__": own.__module__})
        assert isinstance(module, kind)
        module._begin(mesh, self)
        return module


def _check_mesh(mesh: Any, style: str) -> None:
    """Refuse a mesh whose ranks cannot even agree."""
    write = 'parallelize_module(rnn, mesh["heads"], ...), one dimension of the mesh'
    if not isinstance(mesh, DeviceMesh):
        raise TensorError(style, kind_of(mesh), "a DeviceMesh of one dimension", write)
    if mesh.ndim != 1:
        shape = tuple(mesh.mesh.shape)
        raise TensorError(style, f"a mesh of shape {shape}", "a mesh of one dimension", write)
    if mesh.get_coordinate() is None:
        raise TensorError(style, "a rank that is not part of the mesh", "a rank of the mesh", write)


def _facts_of(module: nn.Module, mesh: DeviceMesh, kind: type[Parallel]) -> dict[str, Any]:
    """Return facts that all ranks must share; raise if this rank's module does not fit."""
    style, count = kind.style, mesh.size()
    if not isinstance(module, RNN):
        raise TensorError(
            style,
            f"a module of the class {type(module).__name__}",
            "an rnnc.RNN, whose heads are independent of each other",
            "rnnc.RNN(cell, ..., heads=...), or FSDP2 for modules of one head",
        )
    if isinstance(module, Parallel):
        found = f"a module that {module.style} has spread over ranks already"
        raise TensorError(style, found, "a module of one process", "one style for each module")
    if module.heads % count:
        few = module.heads < count
        raise TensorError(
            "heads",
            f"{module.heads} heads for {count} ranks" + (", fewer than ranks" if few else ""),
            f"a multiple of {count}, the size of the mesh",
            f"heads={max(round(module.heads / count), 1) * count}, or a smaller mesh",
        )
    if module.layers == "wavefront":
        found = 'layers="wavefront", while the features of each layer are exchanged'
        raise TensorError(style, found, "layers that run one after the other", 'layers="auto"')
    kind.check(module)
    devices, dtypes = set(), set()
    for named in module._all_weights():
        weight = module._parameters.get(named.attribute)
        if weight is None:
            found = "a weight that is computed at every call"
            raise TensorError(named.attribute, found, "a parameter", "parametrize after the style")
        if isinstance(weight, DTensor):
            raise TensorError(named.attribute, "a sharded parameter", "a whole one", _FIRST)
        if weight.grad is not None:
            raise TensorError(
                named.attribute,
                "a gradient of an earlier call, which would stay with the whole weight",
                "a module without gradients",
                "module.zero_grad(), and make steppers and optimizers after parallelize_module",
            )
        devices.add(weight.device.type)
        dtypes.add(weight.dtype)
    if not devices <= {mesh.device_type, "meta"}:
        raise TensorError(
            style,
            f"parameters on {', '.join(sorted(devices))} and a mesh of {mesh.device_type}",
            f"parameters on {mesh.device_type}",
            f"module.to({mesh.device_type!r}) on all ranks",
        )
    names = "input_size", "hidden_size", "heads", "num_layers", "bidirectional", "proj_size", "bias"
    facts: dict[str, Any] = {name: getattr(module, name) for name in names}
    facts |= {"cell": module.cell.fingerprint, "dtype": sorted(map(str, dtypes))}
    return facts | {"device": sorted(devices)}
