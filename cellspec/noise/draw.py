"""`Draw`: the distribution that calls draw an `Input` from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..errors import CellError

Kind = Literal["bernoulli", "uniform", "normal"]
Per = Literal["step", "sequence"]
#: How often a value is drawn.
PER: tuple[Per, ...] = ("step", "sequence")


@dataclass(frozen=True)
class Distribution:
    """One distribution of the language.

    Attributes:
        arguments: their names.
        mean: the mean, from the numbers of the arguments.
        allows: whether the arguments may have these numbers.
        wanted: what they should be, for messages.
        example: a call that is right, for messages.
        latex: of the distribution, from the LaTeX of its arguments.
    """

    arguments: tuple[str, ...]
    mean: Callable[..., float]
    allows: Callable[..., bool]
    wanted: str
    example: str
    latex: Callable[..., str]


DISTRIBUTIONS: dict[Kind, Distribution] = {
    "bernoulli": Distribution(
        ("p",),
        lambda p: p,
        lambda p: 0 <= p <= 1,
        "a probability from 0 to 1",
        "bernoulli(0.1)",
        lambda p: rf"\mathrm{{Bernoulli}}\left({p}\right)",
    ),
    "uniform": Distribution(
        ("low", "high"),
        lambda low, high: low + (high - low) / 2,
        lambda low, high: low <= high and math.isfinite(high - low),
        "a low that is not above high",
        "uniform(low=0, high=1)",
        lambda low, high: rf"\mathcal{{U}}\left({low}, {high}\right)",
    ),
    "normal": Distribution(
        ("mean", "std"),
        lambda mean, std: mean,
        lambda mean, std: std >= 0,
        "a standard deviation that is not below 0",
        "normal(mean=0, std=1)",
        lambda mean, std: rf"\mathcal{{N}}\left({mean}, {{{std}}}^2\right)",
    ),
}


class Draw(BaseModel):
    """Distribution that calls draw an `Input` from, as part of a cell.

    Attributes:
        kind: its name.
        arguments: each a finite number or the name of a constant of the cell.
        per: whether each step has a value of its own, or each row and unit one for the whole call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    arguments: tuple[float | str, ...]
    per: Per = "step"

    @property
    def distribution(self) -> Distribution:
        """Facts of the distribution in the language."""
        return DISTRIBUTIONS[self.kind]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the constants that it reads."""
        return tuple(a for a in self.arguments if isinstance(a, str))

    def numbers(self, constants: Mapping[str, float]) -> tuple[float, ...]:
        """The numbers of its arguments.

        Args:
            constants: the value of each constant of the cell.
        """
        return tuple(constants[a] if isinstance(a, str) else a for a in self.arguments)

    def mean(self, constants: Mapping[str, float]) -> float:
        """The mean of what is drawn; arguments are as in `numbers`."""
        return self.distribution.mean(*self.numbers(constants))

    def __str__(self) -> str:
        once = ", once per sequence" if self.per == "sequence" else ""
        return f"{self.kind}({', '.join(map(argument_text, self.arguments))}){once}"

    def __repr__(self) -> str:
        arguments = [repr(a) if isinstance(a, str) else argument_text(a) for a in self.arguments]
        arguments += ["per='sequence'"] if self.per == "sequence" else []
        return f"{self.kind}({', '.join(arguments)})"


def argument_text(argument: float | str) -> str:
    """An argument of a draw as equations show it.

    Args:
        argument: a number, or the name of a constant.
    """
    if isinstance(argument, str):
        return argument
    return repr(int(argument) if argument.is_integer() and abs(argument) < 1e15 else argument)


def check_draw(name: str, draw: Draw, constants: Mapping[str, float]) -> None:
    """Check a draw of a cell.

    Args:
        name: of the input.
        draw: what it is drawn from.
        constants: the value of each constant of the cell.

    Raises:
        CellError: it names a constant that the cell lacks, or its numbers are not allowed.
    """
    count = len(draw.distribution.arguments)
    if len(draw.arguments) != count:
        raise CellError(
            f"{draw!r} for the input `{name}`, with {len(draw.arguments)} argument(s)",
            f"{count}: {', '.join(draw.distribution.arguments)}",
            draw.distribution.example,
        )
    for argument in draw.names:
        if argument not in constants:
            known = f": {', '.join(constants)}" if constants else ", which has none"
            raise CellError(
                f"{draw!r} for the input `{name}`, and no constant `{argument}`",
                f"numbers, or names of constants of the cell{known}",
                f"{argument}: Constant = constant(0.1) in the signature",
            )
    check_numbers(draw, constants, f" for the input `{name}`")


def check_numbers(
    draw: Draw, constants: Mapping[str, float], what: str = "", where: str = ""
) -> None:
    """Check the numbers of a draw.

    Args:
        draw: of which all constants are known.
        constants: the value of each constant of the cell.
        what: follows the draw in the message.
        where: its place, for messages.

    Raises:
        CellError: a number is not finite, or they are not allowed together.
    """
    numbers = draw.numbers(constants)
    finite = all(map(math.isfinite, numbers))
    if finite and draw.distribution.allows(*numbers):
        return
    values = ", ".join(f"{a} = {argument_text(constants[a])}" for a in dict.fromkeys(draw.names))
    raise CellError(
        f"{draw!r}{what}{', where ' * bool(values)}{values}",
        draw.distribution.wanted if finite else "finite numbers, or names of constants of the cell",
        _allowed_constants(draw) if finite and values else draw.distribution.example,
        where,
    )


def _allowed_constants(draw: Draw) -> str:
    """Values of a draw's constants that are allowed with its numbers, as advice."""
    names = tuple(dict.fromkeys(draw.names))
    # The numbers too: a low may be as high as a high.
    values = (0.1, 1.0, 0.0, *(a for a in draw.arguments if not isinstance(a, str)))
    choices = sorted(product(values, repeat=len(names)), key=lambda chosen: -len({*chosen}))
    allows = draw.distribution.allows
    found = next(
        (c for c in choices if allows(*draw.numbers(dict(zip(names, c, strict=True))))), None
    )
    if found is None:
        return draw.distribution.example
    texts = [f"{n}={argument_text(v)}" for n, v in zip(names, found, strict=True)]
    return f"with_constants({', '.join(texts)}), or these numbers where the constants are declared"
