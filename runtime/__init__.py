"""From text to torch: compilation, operators and the module."""

from .process.earlier_names import find_earlier_names

find_earlier_names()
