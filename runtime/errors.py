"""Errors of calls, compilers and devices."""

from __future__ import annotations

from ..errors import RnncError


class TensorError(RnncError, ValueError):
    """An argument of a call is wrong: its tensors, sizes or options.

    Attributes:
        argument: the argument's name, the same as `where`.

    Example:
        >>> import rnnc
        >>> try:
        ...     rnnc.RNN(rnnc.cells.lstm, 4, 10, heads=3)
        ... except rnnc.TensorError as error:
        ...     print(error.argument, "->", error.wanted)
        heads -> a divisor of hidden_size
    """

    @property
    def argument(self) -> str:
        """The argument's name."""
        return self.where


class CompileError(RnncError):
    """The compiler refused a generated source: a mistake of rnnc, or a broken tool chain."""


class NoCompilerError(CompileError):
    """The machine has no C++ compiler: install one, or use the reference backend."""


class SecondOrderError(RnncError, RuntimeError):
    """A gradient of a gradient, which only the reference backend has."""


class TransformError(RnncError, RuntimeError):
    """A transform of torch that the kernels cannot follow, but the reference backend can."""


class BackwardError(RnncError, RuntimeError):
    """A backward pass whose saved tensors were not kept, or were overwritten when it failed."""


class NoCudaError(CompileError):
    """The machine lacks what CUDA kernels are built with: install it."""


class SettingError(RnncError, ValueError):
    """An environment variable of rnnc has a value that it may not have."""


class ResidencyError(RnncError, RuntimeError):
    """The device cannot hold at once all blocks that wait for each other."""
