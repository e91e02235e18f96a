"""What can go wrong between a cell and its results, and whose fault it is."""

from __future__ import annotations

from ..cellspec.errors import RnncError


class TensorError(RnncError, ValueError):
    """The caller's tensors are at fault: names the argument, what came and what was expected.

    Example:
        >>> import rnnc
        >>> try:
        ...     rnnc.RNN(rnnc.cells.lstm, 4, 10, heads=3)
        ... except rnnc.TensorError as error:
        ...     print(error.argument, "->", error.wanted)
        heads -> a divisor of hidden_size
    """

    def __init__(self, argument: str, found: str, wanted: str, write: str) -> None:
        super().__init__(f"{argument}\n  found:  {found}\n  wanted: {wanted}\n  write:  {write}")
        self.argument = argument
        self.found = found
        self.wanted = wanted
        self.write = write


class CompileError(RnncError):
    """The compiler refused a generated source: our fault, or a broken tool chain."""


class NoCompilerError(CompileError):
    """The machine has no C++ compiler: the caller may install one, or use the reference."""


class SecondOrderError(RnncError, RuntimeError):
    """The caller differentiates a gradient, which the kernels cannot: the reference can."""


class TransformError(RnncError, RuntimeError):
    """The caller transforms a call in a way that the kernels cannot follow: the reference can."""


class BackwardError(RnncError, RuntimeError):
    """A backward pass cannot run: what it needs was not kept, or overwritten when it failed."""


class NoCudaError(CompileError):
    """The machine lacks what CUDA kernels are built with: the caller may install it."""


class SettingError(RnncError, ValueError):
    """An environment variable of rnnc is at fault: names it, what it says and what it may say."""


class ResidencyError(RnncError, RuntimeError):
    """The device has no room for blocks that wait for each other: a smaller launch would run."""
