"""A target that is registered from outside: found by name, run forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import rnnc
import torch
import torch.nn.functional as F  # noqa: N812
from rnnc.errors import TransformError
from rnnc.runtime.call.layer_call import LayerCall
from rnnc.runtime.call.requests import InputBackward, LayerBackward
from rnnc.runtime.call.tensors import Forward, Gradients, ScanInputs
from rnnc.runtime.targets.reference import scan_reference
from rnnc.runtime.targets.registry import (
    TARGETS,
    Target,
    backends,
    register_target,
    target_name,
    unregister_target,
)
from torch import Tensor


class Toy(Target):
    """The reference's loop, with layouts of its own: gates first in wx, one number in `saved`."""

    device = "cpu"
    dtypes: tuple[torch.dtype, ...] = (torch.float64,)
    takes_masks = True

    def __init__(self) -> None:
        self.called: list[str] = []
        self.missing = False

    def find_compiler(self, index: int | None) -> None:
        if self.missing:
            raise rnnc.CompileError("toy compiler", "none", "one", "a toy compiler")

    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        return torch.float64, dtype  # computes in double, and rounds its results

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        self.called.append("project")
        gates, heads, dim, size = weight.shape
        rows = F.linear(x, weight.reshape(gates * heads * dim, size))
        return rows.view(*x.shape[:2], gates, heads, dim).permute(1, 0, 3, 4, 2)

    def rounds(self, dtype: torch.dtype, precision: str | None) -> bool:
        return False

    def project_at(self, x: Tensor, weight: Tensor, tf32: bool) -> Tensor:
        return self.project(x, weight)

    def project_gradients(self, backward: InputBackward) -> tuple[Tensor | None, Tensor | None]:
        self.called.append("project_gradients")
        d_wx, x, weight, wanted, _, d_x, _ = backward
        if wanted[0]:
            found = torch.einsum("btndg,gndi->tbi", d_wx, weight)
            d_x = found if d_x is None else d_x.add_(found)
        return d_x, torch.einsum("btndg,tbi->gndi", d_wx, x) if wanted[1] else None

    def saved_shape(self, cell: rnnc.Cell, sizes: Sequence[int], save: str) -> tuple[int, ...]:
        return (1,)

    def computes_gates_again(self, save: str) -> bool:
        return True

    def forward(self, layer_call: LayerCall, inputs: ScanInputs, donated: bool = False) -> Forward:
        self.called.append("forward")
        with torch.no_grad():
            over_time, last = scan_reference(layer_call.cell, inputs)
        stored = zip(over_time, layer_call.stored, strict=True)
        states = [s.transpose(0, 1).contiguous() if wanted else s[:, :0].transpose(0, 1)
                  for s, wanted in stored]  # fmt: skip
        return Forward(states, [s.clone() for s in last], inputs.wx.new_zeros(1))

    def backward(self, layer_call: LayerCall, backward: LayerBackward) -> Gradients:
        self.called.append("backward")
        saved, d_states, d_last, _ = backward
        assert saved.wx is not None
        inputs = ScanInputs(
            *(saved.wx, saved.R, saved.b, saved.initial_states, saved.R_diag, saved.params),
            saved.masks,
        ).map(lambda tensor: tensor.detach().requires_grad_())
        with torch.enable_grad():
            over_time, last = scan_reference(layer_call.cell, inputs)
            given = [(s.transpose(0, 1), d) for s, d in zip(over_time, d_states, strict=True)]
            given += list(zip(last, d_last, strict=True))
            total = torch.stack([(s * d).sum() for s, d in given if d is not None]).sum()
            found = dict(
                zip(
                    map(id, inputs.present()),
                    torch.autograd.grad(total, inputs.present(), materialize_grads=True),
                    strict=True,
                )
            )
        plane = saved.initial_states[0].shape[1:]

        def of(tensor: Tensor | None) -> Tensor:
            return saved.saved.new_empty(0) if tensor is None else found[id(tensor)]

        params = [of(p) for p in inputs.params]
        return Gradients(
            of(inputs.wx),
            of(inputs.R),
            of(inputs.b),
            [of(s) for s in inputs.initial_states],
            of(inputs.R_diag),
            torch.stack(params) if params else saved.saved.new_empty(0, *plane),
        )


@pytest.fixture
def toy() -> Iterator[Toy]:
    target = Toy()
    register_target("toy", target)
    yield target
    unregister_target("toy")
    assert "toy" not in TARGETS


@pytest.mark.parametrize("name", ["lstm", "indrnn", "gru", "mingru"])
def test_scan_runs_on_it(name: str, toy: Toy, inputs_for) -> None:
    cell = rnnc.cells.get(name)
    inputs = inputs_for(cell, 2, 5, 2, 4)
    leaves = inputs.named()
    seeds: list[Tensor] = []
    found = {}
    for backend in ("reference", "toy"):
        results = list(inputs.scan(cell, backend).values())
        seeds = seeds or [torch.randn_like(r) for r in results]
        gradients = torch.autograd.grad(results, list(leaves.values()), seeds)
        found[backend] = [*results, *gradients]
    assert toy.called == ["forward", "backward"]
    for one, other in zip(found["reference"], found["toy"], strict=True):
        torch.testing.assert_close(other, one)


def test_a_module_runs_on_it(toy: Toy) -> None:
    x = torch.randn(5, 2, 3, requires_grad=True)
    modules = {b: rnnc.RNN(rnnc.cells.lstm, 3, 4, num_layers=2, backend=b) for b in ("toy", "cpu")}
    modules["cpu"].load_state_dict(modules["toy"].state_dict())
    found = {}
    for name, module in modules.items():
        y, last = module(x)
        weights = list(module.parameters())
        found[name] = [y, *last, *torch.autograd.grad(y.square().sum(), [x, *weights])]
    forward, backward = ["project", "forward"], ["project", "backward", "project_gradients"]
    assert toy.called == [*forward, *forward, *backward, *backward]
    for one, other in zip(found["cpu"], found["toy"], strict=True):
        torch.testing.assert_close(other, one)


def test_a_module_with_lengths_runs_on_it(toy: Toy) -> None:
    x, lengths = torch.randn(5, 3, 3, requires_grad=True), torch.tensor([5, 0, 2])
    modules = {b: rnnc.RNN(rnnc.cells.gru, 3, 4, num_layers=2, backend=b) for b in ("toy", "cpu")}
    modules["cpu"].load_state_dict(modules["toy"].state_dict())
    found = {}
    for name, module in modules.items():
        y, last = module(x, lengths=lengths)
        leaves = [x, *module.parameters()]
        found[name] = [y, *last, *torch.autograd.grad(y.square().sum(), leaves)]
    assert toy.called.count("forward") == toy.called.count("backward") == 2
    for one, other in zip(found["cpu"], found["toy"], strict=True):
        torch.testing.assert_close(other, one)


def scanned(backend: str, device: str = "cpu") -> Tensor:
    wx = torch.randn(2, 3, 1, 4, 1, device=device, dtype=torch.float64, requires_grad=True)
    R = torch.randn(1, 1, 4, 4, device=device, dtype=torch.float64)
    return rnnc.scan(rnnc.cells.elman, wx, R, backend=backend)[0][0]


def test_a_tensor_elsewhere_is_refused(toy: Toy) -> None:
    with pytest.raises(rnnc.TensorError) as refused:
        scanned("toy", "meta")
    assert str(refused.value) == (
        "backend\n"
        '  found:  "toy" with tensors on meta\n'
        "  wanted: tensors on cpu\n"
        '  write:  tensor.to("cpu"), or backend="auto"'
    )


def test_its_missing_compiler_is_an_error(toy: Toy) -> None:
    toy.missing = True
    with pytest.raises(rnnc.CompileError, match="toy compiler"):
        scanned("toy")


def test_what_takes_the_operators_is_refused(toy: Toy) -> None:
    wx = torch.randn(2, 3, 1, 4, 1, dtype=torch.float64, requires_grad=True)
    R = torch.randn(1, 1, 4, 4, dtype=torch.float64)

    def run(wx: Tensor) -> Tensor:
        return rnnc.scan(rnnc.cells.elman, wx, R, backend="toy")[0][0]

    with pytest.raises(TransformError) as refused:
        torch.autograd.grad(run(wx).sum(), wx, create_graph=True)
    assert str(refused.value) == (
        'backend="toy"\n'
        "  found:  torch.compile, a mode, a transform, a tensor subclass or a second derivative\n"
        "  wanted: plain tensors and a first derivative; cpu, cuda have operators\n"
        '  write:  backend="auto" or backend="reference"'
    )
    with pytest.raises(TransformError, match='backend="toy"'):
        run(wx.detach()._neg_view())
    with pytest.raises(TransformError, match="a transform"):
        torch.func.vmap(run)(wx.detach()[None])
    assert toy.called.count("backward") == 0


def test_a_dtype_without_kernels_is_refused(toy: Toy) -> None:
    toy.dtypes_of = lambda dtype: (dtype, dtype)  # type: ignore[method-assign]
    with pytest.raises(rnnc.TensorError, match=r"one of torch\.float64 on cpu"):
        rnnc.scan(
            rnnc.cells.elman,
            torch.randn(2, 3, 1, 4, 1),
            torch.randn(1, 1, 4, 4),
            backend="toy",
        )


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "reference"])
def test_a_name_is_given_once(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        register_target(name, Toy())


def test_an_object_of_no_target_is_refused() -> None:
    with pytest.raises(TypeError, match=r"of object, which is no Target: write `class Mine\("):
        register_target("mine", object())  # type: ignore[arg-type]
    assert "mine" not in TARGETS


def test_names_that_are_no_backend_are_answered_with_all(toy: Toy) -> None:
    assert backends() == ("auto", "cpu", "cuda", "toy", "reference")
    for wrong in (
        lambda: scanned("hip"),
        lambda: rnnc.RNN(rnnc.cells.gru, 3, 4, backend="hip"),
    ):
        with pytest.raises(rnnc.TensorError, match="one of auto, cpu, cuda, toy, reference"):
            wrong()


def test_auto_takes_the_only_target_of_a_device(toy: Toy) -> None:
    assert target_name("cpu") == "cpu"
    toy.device = "meta"
    assert target_name("meta") == "toy"
    assert target_name("cpu", "toy") is None


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_the_targets_of_this_package_follow_the_protocol(name: str) -> None:
    target: Target = TARGETS[name]
    assert target.device == name


@pytest.mark.parametrize("module", [False, True])
def test_a_target_may_begin_ahead_of_a_first_call(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, module: bool
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(Toy, "begin", lambda self, *asked: begun.append(asked))
    new = {"dtype": torch.float64}
    if module:
        rnnc.RNN(rnnc.cells.elman, 3, 4, backend="toy", **new)(torch.randn(5, 2, 3, **new))
    else:
        wx, R = torch.randn(2, 3, 1, 4, 1, **new), torch.randn(1, 1, 4, 4, **new)
        rnnc.scan(rnnc.cells.elman, wx, R, backend="toy")
    assert begun == [(torch.float64, None)]
