"""A tensor or an array on the left of an operator gets the message that it gets on the right."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import rnnc
import torch
from rnnc import Gate, State, tanh

LEFT = {
    "a tensor": (torch.tensor(0.3), "tensor(0.3000)", "a number as float(x)"),
    "a Parameter": (torch.nn.Parameter(torch.ones(3)), "a Parameter", "w: Param"),
    "an array": (np.array([1.0, 2.0]), "array([1., 2.])", "w: Param"),
    "an array of one": (np.array([0.3]), "array([0.3])", "a number as float(x)"),
}
OPERATORS = "add sub mul truediv pow mod floordiv lt le gt ge eq ne".split()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("kind", LEFT)
def test_foreign_operands_on_the_left(kind, name):
    value, found, write = LEFT[kind]

    def c(g: Gate, h: State):
        return getattr(operator, name)(value, tanh(g))

    with pytest.raises(rnnc.CellError) as caught:
        rnnc.cell(c)
    assert f"{found} inside the equations" in str(caught.value)
    assert write in caught.value.write


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_both_sides_say_the_same(name):
    def left(g: Gate, h: State):
        return getattr(operator, name)(torch.tensor(0.3), tanh(g))

    def right(g: Gate, h: State):
        return getattr(operator, name)(tanh(g), torch.tensor(0.3))

    errors = []
    for each in (left, right):
        with pytest.raises(rnnc.CellError) as caught:
            rnnc.cell(each)
        errors.append(caught.value.details)
    assert errors[0] == errors[1]


def test_products_of_matrices_keep_their_own():
    def c(g: Gate, h: State):
        return torch.ones(3, 3) @ h

    with pytest.raises(rnnc.CellError, match=r"a call of torch\.matmul"):
        rnnc.cell(c)
