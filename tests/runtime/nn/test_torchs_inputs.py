"""torch's own module inputs and reference functions, over `rnnc.nn` on the CPU."""

from __future__ import annotations

import copy
import pickle
from functools import cache

import pytest
import rnnc
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_flatten, tree_map

pytest.importorskip("expecttest", reason="torch's module inputs need expecttest")

NAMES = ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"]
EACH = pytest.mark.parametrize("name", NAMES)
KINDS = pytest.mark.parametrize(
    ("dtype", "training"),
    [
        (torch.float32, True),
        pytest.param(torch.float64, True, marks=pytest.mark.slow),
        (torch.float64, False),
    ],
)


@cache
def info_of(name):
    # torch's own tests forbid, as they are imported, to set flags of the whole process. That holds
    # until this block ends, so that other tests may set them.
    with torch.backends.__allow_nonbracketed_mutation():
        from torch.testing._internal.common_modules import module_db

    return next(info for info in module_db if info.module_cls is getattr(nn, name))


def samples_of(name, dtype, training=True, **options):
    info = info_of(name)
    if name in ("GRU", "RNN"):
        options["with_packed_sequence"] = True
    return info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=True, training=training, **options
    )


def build(name, sample, dtype, training):
    """A module of ours and torch's with the same weights."""
    given = sample.constructor_input
    modules = [
        getattr(room, name)(*given.args, **given.kwargs, dtype=dtype).train(training)
        for room in (rnnc.nn, nn)
    ]
    modules[0].load_state_dict(modules[1].state_dict())
    return modules


def own(values):
    """The same values, of which each is a leaf."""

    def leaf(value):
        if isinstance(value, PackedSequence):
            return value._replace(data=leaf(value.data))
        return value.detach().clone().requires_grad_() if isinstance(value, torch.Tensor) else value

    return tree_map(leaf, values, is_leaf=lambda v: isinstance(v, PackedSequence))


def tensors(values):
    found = []
    for value in tree_flatten(values, is_leaf=lambda v: isinstance(v, PackedSequence))[0]:
        found.append(value.data if isinstance(value, PackedSequence) else value)
    return [value for value in found if isinstance(value, torch.Tensor)]


def results_and_gradients(module, args):
    module.zero_grad()
    args = own(args)
    results = tensors(module(*args))
    sum((r * (1 + place)).square().sum() for place, r in enumerate(results)).backward()
    return [*results, *[t.grad for t in tensors(args)], *[p.grad for p in module.parameters()]]


def doubled(values):
    """The same values in float64."""

    def double(value):
        return (
            value._replace(data=double(value.data))
            if isinstance(value, PackedSequence)
            else (value.double() if isinstance(value, torch.Tensor) else value)
        )

    return tree_map(double, values, is_leaf=lambda v: isinstance(v, PackedSequence))


def distance(got, right):
    """The largest error, relative to the largest value."""
    return ((got - right).abs().max() / right.abs().max().clamp_min(1e-3)).item()


def assert_all_close(got, wanted):
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other)


@EACH
@KINDS
def test_forward_and_gradients(name, dtype, training):
    errors = []
    for sample in samples_of(name, dtype, training):
        ours, theirs = build(name, sample, dtype, training)
        args = sample.forward_input.args
        found = [results_and_gradients(module, args) for module in (ours, theirs)]
        if dtype == torch.float64:
            assert_all_close(*found)
        else:
            exact = results_and_gradients(theirs.double(), doubled(args))
            errors += [list(map(distance, values, exact)) for values in found]
            theirs.float()
        # Where the reference function takes the module's output, as torch's own test does.
        if sample.reference_fn is not None and not isinstance(args[0], PackedSequence):
            wanted = sample.reference_fn(ours, *args)
            assert_all_close(tensors(ours(*args)), tensors(wanted))
    # Over all inputs, at most twice as far from float64 as torch's module.
    ours, theirs = ([e for each in errors[place::2] for e in each] for place in (0, 1))
    assert sum(ours) <= 2 * sum(theirs)
    assert dtype == torch.float64 or sum(theirs) > 0


@EACH
def test_copies(name):
    for sample in samples_of(name, torch.float32)[::3]:
        ours, theirs = build(name, sample, torch.float32, True)
        args = sample.forward_input.args
        wanted = results_and_gradients(ours, args)
        theirs.load_state_dict(ours.state_dict())
        fresh = type(ours)(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        fresh.load_state_dict(theirs.state_dict())
        for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), fresh):
            assert repr(other) == repr(theirs)
            found = results_and_gradients(other, args)
            assert all(map(torch.equal, found, wanted))


@EACH
def test_tensors_with_gaps(name):
    def with_gaps(value):
        if not isinstance(value, torch.Tensor):
            return value
        spread = torch.stack((value.detach(), torch.full_like(value, torch.nan)), -1)[..., 0]
        assert value.numel() == 1 or not spread.is_contiguous()
        return spread

    for sample in samples_of(name, torch.float64):
        args = sample.forward_input.args
        if isinstance(args[0], PackedSequence):
            continue
        ours, theirs = build(name, sample, torch.float64, True)
        spread = tree_map(with_gaps, args)
        assert_all_close(tensors(ours(*spread)), tensors(theirs(*args)))


@EACH
def test_numerical_gradients(name):
    for sample in samples_of(name, torch.float64)[::3]:
        args = sample.forward_input.args
        if isinstance(args[0], PackedSequence):
            continue
        ours, _ = build(name, sample, torch.float64, True)
        flat, spec = tree_flatten(own(args))
        names = [parameter_name for parameter_name, _ in ours.named_parameters()]

        def run(*values, ours=ours, spec=spec, count=len(flat), names=names):
            given = torch.utils._pytree.tree_unflatten(list(values[:count]), spec)
            weights = dict(zip(names, values[count:], strict=True))
            return tuple(tensors(torch.func.functional_call(ours, weights, given)))

        values = (*flat, *[p.detach().clone().requires_grad_() for p in ours.parameters()])
        assert torch.autograd.gradcheck(run, values, fast_mode=True)


@EACH
def test_what_torch_refuses(name):
    info = info_of(name)
    if info.module_error_inputs_func is None:
        pytest.skip("torch has no such inputs for it")
    options = {"device": "cpu", "dtype": torch.float32, "requires_grad": False, "training": True}
    found = info.module_error_inputs_func(info, **options)
    assert found
    for error in found:
        sample = error.module_error_input
        given, call = sample.constructor_input, sample.forward_input
        with pytest.raises(error.error_type, match=error.error_regex):  # noqa: PT012
            module = getattr(rnnc.nn, name)(*given.args, **given.kwargs)
            module(*call.args, **call.kwargs)
