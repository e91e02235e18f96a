"""Reductions over the units of a head: `mean`, `total`, `largest`, `softmax` and norms."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from ..arguments import checked
from ..expression.node import Node
from ..tracing.refusing import number_of, shown
from ..tracing.tracer import Arithmetic, Tracer, expression, shared_owner
from . import refuse
from .calls import running
from .nodes import reduction


@checked
def mean(x: Arithmetic) -> Any:
    """The mean of a value over the units of its head, the same for all of them.

    Args:
        x: a value of the cell.

    Raises:
        CellError: x is a number alone or a condition, or this is the step of a `repeat`.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, State
        >>> @rnnc.cell
        ... def centred(g: Gate, h: State):
        ...     return rnnc.tanh(g - rnnc.mean(g))
        >>> centred.equations()[-1]
        "h' = tanh(g - mean(g))"
    """
    return _single("mean", x)


@checked
def total(x: Arithmetic) -> Any:
    """The sum of a value over the units of its head, the same for all of them.

    Args:
        x: what is added up.

    Raises:
        CellError: x is a number or a condition, or the call is in the step of a `repeat`.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, State
        >>> @rnnc.cell
        ... def shared(g: Gate, h: State):
        ...     return rnnc.tanh(g) / (1 + rnnc.total(rnnc.abs(h)))
        >>> shared.equations()[-1]
        "h' = tanh(g)/(1 + total(abs(h)))"
    """
    return _single("total", x)


@checked
def largest(x: Arithmetic) -> Any:
    """The largest value of the units of a head, the same for all of them.

    Units that are equally large share its gradient, as with `torch.amax`.

    Args:
        x: what is compared.

    Raises:
        CellError: a number alone, a condition, or a call in the step of a `repeat`.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, State
        >>> @rnnc.cell
        ... def scaled(g: Gate, h: State):
        ...     return g / (1 + rnnc.largest(rnnc.abs(g)))
        >>> scaled.equations()[-1]
        "h' = g/(1 + largest(abs(g)))"
    """
    return _single("largest", x)


@checked
def softmax(x: Arithmetic) -> Any:
    """The exponential of a value over its sum, across the units of its head.

    Args:
        x: the exponents.

    Raises:
        CellError: they are a number alone or a condition, or a step of a `repeat` calls.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, State
        >>> @rnnc.cell
        ... def attending(a: Gate, g: Gate, h: State):
        ...     share = rnnc.softmax(a)
        ...     return share * rnnc.tanh(g) + (1 - share) * h
        >>> attending.equations()[-1]
        "h' = softmax(a)*tanh(g) + (1 - softmax(a))*h"
    """
    return _single("softmax", x)


@checked
def layer_norm(x: Any, gain: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """A value with mean 0 and variance 1 over the units of its head (Ba et al., 2016).

    The value is (x - mean) / sqrt(variance + eps), times the gain, plus the bias. The variance
    divides by the number of units.

    Args:
        x: a value of the cell, or a tuple of values that are normed together: over the units of
            all of them, as torchaudio and Haste norm the four gates of an LSTM.
        gain: None, a factor, or of a tuple a factor for each value; usually a `Param`.
        bias: None, a summand, or of a tuple a summand for each value.
        eps: a number from 0, which keeps the root away from zero.

    Returns:
        One value, or a tuple as long as x.

    Raises:
        CellError: x is a number alone or a condition, there are another number of gains or biases
            than values, eps is below 0, or this is the step of a `repeat`.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, Param, State, param
        >>> @rnnc.cell
        ... def normed(g: Gate, h: State, gain: Param = param(init=1.0)):
        ...     return rnnc.tanh(rnnc.layer_norm(g, gain))
        >>> normed.equations()[-1]
        "h' = tanh(layer_norm(g)*gain)"
    """
    return _norm("layer_norm", x, {"gain": gain, "bias": bias}, eps)


@checked
def rms_norm(x: Any, gain: Any = None, eps: float = 1e-6) -> Any:
    """A value whose mean square over the units of its head is 1 (Zhang and Sennrich, 2019).

    The value is x / sqrt(mean of x squared + eps), times the gain.

    Args:
        x: a value of the cell, or a tuple of values that are normed together.
        gain: None, a factor, or of a tuple a factor for each value; usually a `Param`.
        eps: a number from 0, which keeps the root away from zero.

    Returns:
        One value, or a tuple as long as x.

    Raises:
        CellError: x is a number alone or a condition, there is another number of gains than values,
            eps is below 0, or this is the step of a `repeat`.

    Example:
        >>> import rnnc
        >>> from rnnc import Gate, State
        >>> @rnnc.cell
        ... def normed(g: Gate, h: State):
        ...     return rnnc.tanh(g) + rnnc.rms_norm(h)
        >>> normed.equations()[-1]
        "h' = tanh(g) + rms_norm(h)"
    """
    return _norm("rms_norm", x, {"gain": gain}, eps)


def _single(name: str, x: object) -> Tracer:
    if isinstance(x, tuple | list):
        raise refuse.several(name, [*map(shown, x)])
    (node,) = reduction(name, _reduced(name, [x]))
    return Tracer(node, shared_owner(x))


def _norm(name: str, x: Any, weights: dict[str, Any], eps: Any) -> Any:
    values = tuple(x) if isinstance(x, tuple | list) else (x,)
    nodes = _reduced(name, values)
    found: list[Any] = [
        Tracer(node, shared_owner(*values)) for node in reduction(name, nodes, _eps(name, eps))
    ]
    gains = {word: _for_each(name, word, w, len(values)) for word, w in weights.items()}
    if (own := gains["gain"]) is not None:
        found = [value * gain for value, gain in zip(found, own, strict=True)]
    if (own := gains.get("bias")) is not None:
        found = [value + bias for value, bias in zip(found, own, strict=True)]
    return tuple(found) if isinstance(x, tuple | list) else found[0]


def _reduced(name: str, values: Sequence[Any]) -> list[Node]:
    """The nodes of the values that a reduction takes."""
    texts = [*map(shown, values)]
    calls = running()
    if calls is not None and calls.repeats:
        raise refuse.in_repeat(f"{name}({', '.join(texts)})")
    nodes = [*map(expression, values)]
    if not values or not all(isinstance(x, Tracer) for x in values):
        raise refuse.numbers_alone(name, texts)
    return nodes


def _for_each(name: str, word: str, weights: Any, count: int) -> tuple[Any, ...] | None:
    """The gain or bias of each value."""
    if weights is None:
        return None
    found = tuple(weights) if isinstance(weights, tuple | list) else (weights,)
    if len(found) != count:
        raise refuse.gains(name, word, len(found), count)
    return found


def _eps(name: str, eps: object) -> float:
    real = isinstance(eps, numbers.Real) and not isinstance(eps, bool)
    if not real or not 0 <= number_of(eps) < math.inf:
        raise refuse.eps(name, shown(eps))
    return number_of(eps)
