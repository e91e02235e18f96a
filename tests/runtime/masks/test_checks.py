"""What lengths, resets and reset values may be, and what the errors say."""

from __future__ import annotations

import pytest
import rnnc
import torch

CELL = rnnc.cells.lstm
B, T, N, D = 3, 5, 2, 4


def run(inputs, **options):
    return rnnc.scan(CELL, inputs.wx, inputs.R, inputs.b, backend="reference", **options)


@pytest.fixture
def inputs(inputs_for):
    return inputs_for(CELL, B, T, N, D)


RESET = torch.zeros(B, T, dtype=torch.bool)


@pytest.mark.parametrize(
    ("argument", "found", "options"),
    [
        ("lengths", "a list", {"lengths": [1, 2, 3]}),
        ("lengths", "shape (2,)", {"lengths": torch.tensor([1, 2])}),
        ("lengths", "float32", {"lengths": torch.tensor([1.0, 2.0, 3.0])}),
        ("lengths", "bool", {"lengths": torch.tensor([True, True, True])}),
        ("lengths", "a length of 6", {"lengths": torch.tensor([1, 6, 3])}),
        ("lengths", "a length of -1", {"lengths": torch.tensor([1, 2, -1])}),
        ("reset", "a list", {"reset": [[False] * T] * B}),
        ("reset", "shape (5, 3)", {"reset": RESET.t()}),
        ("reset", "float32", {"reset": RESET.float()}),
        ("reset", "device meta", {"reset": RESET.to("meta")}),
        ("reset_to", "no reset", {"reset_to": (torch.zeros(N, D),) * 2}),
        ("reset_to", "1 of them", {"reset": RESET, "reset_to": (torch.zeros(N, D),)}),
        ("reset_to", "a tensor", {"reset": RESET, "reset_to": torch.zeros(N, D)}),
        ("reset_to[h]", "shape (4,)", {"reset": RESET, "reset_to": (torch.zeros(D),) * 2}),
        ("reset_to[h]", "float32", {"reset": RESET, "reset_to": (torch.zeros(N, D),) * 2}),
    ],
)
def test_the_error_names_what_is_wrong(argument, found, options, inputs):
    with pytest.raises(rnnc.TensorError) as error:
        run(inputs, **options)
    assert error.value.argument == argument
    assert found in str(error.value)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_lengths_are_any_integers(dtype, inputs):
    lengths = torch.tensor([1, 0, 5])
    got, wanted = run(inputs, lengths=lengths.to(dtype)), run(inputs, lengths=lengths)
    assert torch.equal(got[0][0], wanted[0][0])


def test_reset_values_of_several_shapes(inputs):
    reset = torch.rand(B, T) < 0.5
    value = torch.randn(N, D, dtype=torch.float64)
    wide = value.expand(B, T, N, D)
    got = run(inputs, reset=reset, reset_to=(value, wide))
    wanted = run(inputs, reset=reset, reset_to=(wide[:, 0], value))
    for one, other in zip((*got[0], *got[1]), (*wanted[0], *wanted[1]), strict=True):
        assert torch.equal(one, other)


def test_a_target_without_masks_refuses_them(inputs, monkeypatch):
    from rnnc.runtime.targets.registry import TARGETS

    monkeypatch.setattr(type(TARGETS["cpu"]), "takes_masks", False, raising=False)
    for backend in ("auto", "cpu"):
        with pytest.raises(rnnc.TensorError, match="reference") as error:
            rnnc.scan(CELL, inputs.wx, inputs.R, reset=RESET, backend=backend)
        assert error.value.argument == "lengths and reset"
