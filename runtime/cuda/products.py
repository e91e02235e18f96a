"""Matrix products of torch tensors whose precision belongs to the call, not to the process.

torch's products round factors of float32 to TF32 as `torch.backends.cuda.matmul` says, for the
whole process. A recurrent call follows `torch.backends.cudnn.rnn`, as `nn.LSTM` does. Where the two
differ, these products take their place: cuBLAS's, with a compute type of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..replay.recorder import recording
from .driver.cublas import blas_of
from .launch import on_device
from .memory.workspace import workspace_of
from .remultiply import remultiply


class CudaMultiplier:
    """Multiplies matrices of float32 on a GPU at one precision.

    Args:
        tf32: whether factors of float32 may be rounded to TF32.
    """

    __slots__ = ("tf32",)

    def __init__(self, tf32: bool) -> None:
        self.tf32 = tf32

    def mm(self, a: Tensor, b: Tensor) -> Tensor:
        """The product of two matrices, or of as many pairs of matrices as there are.

        Args:
            a: (rows, K) or (count, rows, K), of any strides.
            b: (K, columns) or (count, K, columns), of any strides and the same dtype.

        Returns:
            (rows, columns) or (count, rows, columns), contiguous.
        """
        to = a.new_empty(*a.shape[:-1], b.shape[-1])
        return self._into(to, a, b, add=False)

    def mm_into(self, to: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Write a product to a tensor whose last two axes have no gaps.

        Args:
            to: (rows, columns) or (count, rows, columns).
            a: as in `mm`.
            b: as in `mm`.
        """
        return self._into(to, a, b, add=False)

    def add_mm(self, to: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Add a product to such a tensor, in place.

        Args:
            to: (rows, columns) or (count, rows, columns).
            a: as in `mm`.
            b: as in `mm`.
        """
        return self._into(to, a, b, add=True)

    def _into(self, to: Tensor, a: Tensor, b: Tensor, add: bool) -> Tensor:
        if not to.numel():
            return to
        if not a.shape[-1]:
            return to if add else to.zero_()
        index = to.device.index
        with on_device(to.device):
            blas, stream = blas_of(index), torch._C._cuda_getCurrentRawStream(index)
            memory = workspace_of(index, stream)
            with blas.lock:
                blas.at(stream, memory.data_ptr(), memory.nbytes)
                launched = blas.multiply(to, a, b, tf32=self.tf32, add=add)
        recorder = recording()
        if recorder is not None:
            remultiply(recorder, blas, index, *launched)
        return to


EXACT, ROUNDED = CudaMultiplier(tf32=False), CudaMultiplier(tf32=True)
