"""The cells of the library whose step has one stage, which all kernels run."""

from __future__ import annotations

import rnnc

#: Their names, sorted.
ONE_STAGE = [name for name in rnnc.cells.names() if not rnnc.cells.get(name).has_stages]
