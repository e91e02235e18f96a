"""Results of the reference for a call: in float64, and in the case's dtype."""

from __future__ import annotations

from dataclasses import replace

import torch

from .case import Call, ModuleCase
from .make import begin
from .values import Tensors, load_weights, module_of, weights_of

_MOST = 4  # results that are kept


class Reference:
    """The reference of a case, time first and in rows, which remembers its last results.

    Args:
        case: the case.
        dtype: of the reference.
    """

    def __init__(self, case: ModuleCase, dtype: torch.dtype) -> None:
        self._case = replace(case, batch_first=False)
        self._rnn = module_of(case, dtype, "reference")
        self._version: int | None = None
        self._known: dict[tuple[Call, int], Tensors] = {}

    def results(self, call: Call, version: int) -> Tensors:
        """Return outputs and gradients of a call, by name.

        Args:
            call: as the kernels made it.
            version: of the weights.
        """
        call = plain(call)
        found = self._known.get((call, version))
        if found is None:
            if version != self._version:
                load_weights(self._rnn, weights_of(self._case, self._rnn, version))
                self._version = version
            while len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            found = begin(self._rnn, self._case, call, kernels=False)()
            self._known[call, version] = found
        return found


def plain(call: Call) -> Call:
    """Return the call over time whose results a call has to have."""
    return replace(
        call,
        kind="forward",
        single=False,
        view="plain",
        mode="backward" if call.has_backward else "no_grad",
    )
