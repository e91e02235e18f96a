"""The base of rnnc's errors: where something is wrong, what was found, wanted, and what to write.

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
        super().__init__(where, found, wanted, write)
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
