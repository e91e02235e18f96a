"""The errors of rnnc, and their base: the place, what was found, what was wanted, what to write.

This module imports nothing, so that every package may use it.
"""


class DiagnosticError(Exception):
    """An error in four parts; its text shows each on a line of its own.

    Attributes:
        where: the place of the error: a file and line, an argument, a plan, a device.
        found: what is there.
        wanted: what should be there.
        write: what to write or do instead.
    """

    def __init__(self, where: str, found: str, wanted: str, write: str) -> None:
        # Torch's compiler traces this, but no `super().__init__` of an exception: so its own error
        # shows the four parts.
        self.args = where, found, wanted, write
        self.where = where
        self.found = found
        self.wanted = wanted
        self.write = write

    @property
    def details(self) -> str:
        """The lines of the text below `where`."""
        return f"  found:  {self.found}\n  wanted: {self.wanted}\n  write:  {self.write}"

    def __str__(self) -> str:
        return f"{self.where}\n{self.details}"

    def __reduce__(self) -> tuple[object, ...]:
        # Subclasses have constructors of their own, so copies and pickles do without them.
        return type(self).__new__, (type(self), *self.args), vars(self)


class RnncError(DiagnosticError):
    """The base of all errors that rnnc raises on purpose.

    Example:
        >>> import rnnc
        >>> try:
        ...     rnnc.cells.get("lstn")
        ... except rnnc.RnncError as error:
        ...     print(error.found, "->", error.write)
        no cell of the name 'lstn' -> lstm or slstm
    """


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
