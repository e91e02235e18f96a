"""Algorithms that cuBLASLt proposes for a product, and the blocks per cluster of their kernels."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

# cublasLt.h: the attribute of an algorithm, and blocks per cluster by `cublasLtClusterShape_t`:
# 1x1x1, 2x1x1, 4x1x1, 1x2x1, 2x2x1, ... Kernels from before clusters have the number 0 (an H200,
# cuBLAS 13.0, 2026-11-24: `ncu` reports just these clusters for eight kinds of products).
_CLUSTER_SHAPE, _NO_CLUSTERS = 8, 0
_BLOCKS = {_NO_CLUSTERS: 1}
_BLOCKS |= enumerate((1, 2, 4, 2, 4, 8, 4, 8, 16, 8, 8, 16, 16, 16, 16), 2)


class Proposal(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`; it begins with the algorithm."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


def cluster_of(library: Any, proposal: Proposal) -> int | None:
    """Return the blocks per cluster of an algorithm; None where cuBLASLt does not tell."""
    shape, written = ctypes.c_uint16(), ctypes.c_size_t()
    status = library.cublasLtMatmulAlgoConfigGetAttribute(
        *(ctypes.byref(proposal), _CLUSTER_SHAPE, ctypes.byref(shape), ctypes.sizeof(shape)),
        ctypes.byref(written),
    )
    return None if status else _BLOCKS.get(shape.value)


def with_small_clusters(
    library: Any, found: Sequence[Proposal], operation: Sequence[Any], most: int, workspace: int
) -> Proposal:
    """Return a proposal with at most so many blocks per cluster, or else the first."""
    for each in found:
        if (cluster_of(library, each) or math.inf) <= most:
            return each
    shapes = [shape for shape, blocks in _BLOCKS.items() if shape and blocks <= most]
    for each in found:
        for shape in reversed(shapes):
            changed = _with_shape(library, each, operation, shape)
            if changed is not None and changed.workspace <= workspace:
                return changed
    return found[0]


def _with_shape(
    library: Any, proposal: Proposal, operation: Sequence[Any], shape: int
) -> Proposal | None:
    """Return an algorithm with clusters of another shape; None where the library refuses it."""
    changed, checked = Proposal.from_buffer_copy(proposal), Proposal()
    number, reference = ctypes.c_uint16(shape), ctypes.byref(changed)
    put = library.cublasLtMatmulAlgoConfigSetAttribute
    if put(reference, _CLUSTER_SHAPE, ctypes.byref(number), ctypes.sizeof(number)):
        return None
    # A result has two matrices, of which the first is added: here they are one.
    status = library.cublasLtMatmulAlgoCheck(
        *(*operation, operation[-1], reference, ctypes.byref(checked))
    )
    changed.workspace = checked.workspace
    return None if status or checked.state else changed
