"""Matrix products on a GPU, whose precision belongs to the call, not to the process.

torch's products round factors of float32 to TF32 as `torch.backends.cuda.matmul` says, for the
whole process. A recurrent call follows `torch.backends.cudnn.rnn`, as `nn.LSTM` does: its products
have a compute type of their own. They also take half of the host's time.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....codegen.shape import Precision
from ...program.multiplier import Multiplier
from ...program.ops import Addressed, Name, Running
from ...program.recorder import issue
from ..driver.cublas import FAST_TF32, KINDS, workspace_bytes
from ..driver.matmul import AS_IT_IS, TRANSPOSED, Matmul, Matrix, Multiplies, aligned, multiplies
from ..driver.streams import current_stream, is_capturing, on_device
from ..memory import lasting_workspace


class Multiply(Addressed):
    """Product of two matrices, by addresses, in memory of its own or of its stream's products."""

    __slots__ = ("_device", "_launch", "_own", "kind")

    def __init__(
        self,
        kind: Matmul,
        launch: Multiplies,
        addresses: Sequence[int],
        device: int,
        own: tuple[int, int] | None = None,
        lane: int | None = None,
    ) -> None:
        """Make it; `own` is the address and the bytes of memory of its own."""
        memory, size = own or (0, 0)
        super().__init__(array("q", [*addresses, memory]), range(4), lane)
        self.kind, self._launch, self._device = kind, launch, device
        self._own = None if own is None else size

    @property
    def shares_on(self) -> int | None:
        """Device on which products of a stream share memory with it; None if it has its own."""
        return self._device if self._own is None else None

    def text(self, name: Name) -> str:
        """Return it in words."""
        kind, (second, first, to, *_) = self.kind, self.named(name).values()
        # The library's matrices lie by columns: it is given the product of the transposes.
        rows, inner, columns = kind.columns, kind.inner, kind.rows
        many = "" if kind.products == 1 else f"{kind.products} times "
        sizes = f"{many}({rows} x {inner}) ({inner} x {columns})"
        return f"multiply {sizes}: {first}, {second} {'added to' if kind.add else '->'} {to}"

    def __call__(self, running: Running) -> None:
        """Launch it; return at once."""
        first, second, to, memory = self.filled(running)
        stream, size = running.stream if self.lane is None else self.lane, self._own
        if size is None:
            owner = running.owner if self.lane is None else stream
            workspace = lasting_workspace(self._device, owner)
            memory, size = workspace.data_ptr(), workspace.nbytes
        self._launch(first, second, to, stream, memory, size)


def multiply(kind: Matmul, device: int, addresses: Sequence[int]) -> None:
    """Launch a product on torch's current stream of the current device."""
    stream, launch = current_stream(device), multiplies(kind, device)
    own = None
    if is_capturing(device):
        # A graph keeps no memory but that of its own pool. Freed early, it goes to whoever runs
        # later in the same stream.
        like = torch.device("cuda", device)
        kept = torch.empty(workspace_bytes(device), dtype=torch.uint8, device=like)
        own = kept.data_ptr(), kept.nbytes
    issue(Multiply(kind, launch, addresses, device, own), Running(stream))


class CudaMultiplier(Multiplier):
    """Products on a GPU at one precision: with `tf32`, factors of float32 may be rounded."""

    def __init__(self, tf32: bool) -> None:
        self.tf32 = tf32

    def mm(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the product of two matrices, or of as many pairs of matrices as there are.

        They are (rows, K) and (K, columns), or (count, rows, K) and (count, K, columns), of one
        dtype and any strides. The result is contiguous.
        """
        to = a.new_empty(*a.shape[:-1], b.shape[-1])
        return self._into(to, a, b, add=False)

    def mm_into(self, to: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Write a product to a tensor whose last two axes have no gaps, and return it."""
        return self._into(to, a, b, add=False)

    def add_mm(self, to: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Add a product to a tensor whose last two axes have no gaps, and return it."""
        return self._into(to, a, b, add=True)

    def _into(self, to: Tensor, a: Tensor, b: Tensor, add: bool) -> Tensor:
        if not to.numel():
            return to
        if not a.shape[-1]:
            return to if add else to.zero_()
        a_turn, a, a_pitch = _operand(a)
        b_turn, b, b_pitch = _operand(b)
        turned = (a_turn, a_pitch), (b_turn, b_pitch)
        kind, places = product_kind(to, a, b, turned, tf32=self.tf32, add=add)
        with on_device(to.device):
            multiply(kind, to.device.index, places)
        return to


def kind_of_rows(to: Tensor, rows: Tensor, matrix: Tensor, tf32: bool) -> Matmul:
    """Return the kind of a product of contiguous rows with such a matrix, or its transpose."""
    inner, columns = matrix.shape
    is_turned = matrix.stride(1) != 1
    turned = (AS_IT_IS, inner), (int(is_turned), inner if is_turned else columns)
    return product_kind(to, rows, matrix, turned, tf32=tf32, add=False)[0]


def product_kind(
    to: Tensor,
    a: Tensor,
    b: Tensor,
    turned: tuple[tuple[int, int], tuple[int, int]],
    *,
    tf32: bool,
    add: bool,
) -> tuple[Matmul, tuple[int, int, int]]:
    """Return the kind of a product, and its addresses; `turned` has each turn and pitch."""
    (a_turn, a_pitch), (b_turn, b_pitch) = turned
    element, _, compute = KINDS[a.dtype]
    if tf32 and a.dtype == torch.float32:
        compute = FAST_TF32
    *count, rows, columns = to.shape
    places = b.data_ptr(), a.data_ptr(), to.data_ptr()
    apart = [tensor.stride(0) for tensor in (b, a, to)] if count else (0, 0, 0)
    first, second, third = (
        Matrix(kind, pitch, far, aligned(place | far * tensor.element_size()))
        for kind, pitch, far, place, tensor in zip(
            *((element, element, KINDS[to.dtype][0]), (b_pitch, a_pitch, columns), apart, places),
            (b, a, to),
            strict=True,
        )
    )
    # The library's matrices lie by columns: it is given the product of the transposes.
    sizes = (b_turn, a_turn), columns, rows, a.shape[-1]
    many = count[0] if count else 1
    return Matmul(*sizes, first, second, third, many, compute, add), places


EXACT, ROUNDED = CudaMultiplier(tf32=False), CudaMultiplier(tf32=True)


def _operand(matrix: Tensor) -> tuple[int, Tensor, int]:
    """Return a matrix as the library reads it: whether transposed, the tensor, and its pitch."""
    rows, columns = matrix.shape[-2:]
    down, right = matrix.stride()[-2:]
    if (right == 1 or columns == 1) and (down >= columns or rows == 1):
        return AS_IT_IS, matrix, down if rows > 1 else columns
    if (down == 1 or rows == 1) and (right >= rows or columns == 1):
        return TRANSPOSED, matrix, right if columns > 1 else rows
    return AS_IT_IS, matrix.contiguous(), columns


def rounds(dtype: torch.dtype, precision: Precision) -> bool:
    """Return True if the products of a call may round their factors to TF32.

    Only float32 has the choice. A precision of None follows
    `torch.backends.cudnn.rnn.fp32_precision`, as `nn.LSTM` does: TF32 unless the user says
    otherwise. That flag follows the older `torch.backends.cudnn.allow_tf32`, which raises an error
    once a new flag is set.
    """
    if dtype != torch.float32:
        return False
    if precision is None:
        flags: Any = torch.backends.cudnn.rnn
        return bool(flags.fp32_precision == "tf32")
    return precision == "tf32"


def multiplier(dtype: torch.dtype, tf32: bool) -> Multiplier:
    """Return the multiplier of tensors of a dtype."""
    return ROUNDED if tf32 and dtype == torch.float32 else EXACT


# An address, and the elements between rows.
Place = tuple[int, int]
# Rows, inner and columns of a product, its factors a and b, and where the result goes.
Operands = tuple[int, int, int, Place, Place, Place]


class Many(NamedTuple):
    """Products of several heads; the other fields are elements between their operands."""

    heads: int
    first: int
    second: int
    to: int


class Gemm:
    """Row-major products of one dtype on the current device, on torch's current stream.

    Matrices are given by address and by elements between rows. With `tf32`, factors of float32 may
    be rounded to TF32.
    """

    def __init__(self, device: int, dtype: torch.dtype, tf32: bool) -> None:
        self._device, self._bytes = device, dtype.itemsize
        self._factor, self._sum, compute = KINDS[dtype]
        self._compute = FAST_TF32 if tf32 and dtype == torch.float32 else compute

    def forward(self, *given: *Operands, many: Many | None = None) -> None:
        """Multiply, into sums: to (rows, columns) = a (rows, inner) b^T of b (columns, inner)."""
        self._run((TRANSPOSED, AS_IT_IS), given, self._sum, False, many)

    def backward(
        self, *given: *Operands, many: Many | None = None, sums: bool = False, add: bool = False
    ) -> None:
        """Multiply: to = a (rows, inner) b (inner, columns), or += with `add`; sums with `sums`."""
        kind = self._sum if sums else self._factor
        self._run((AS_IT_IS, AS_IT_IS), given, kind, add, many)

    def weights(self, *given: *Operands, many: Many | None = None) -> None:
        """Multiply: to (rows, columns) = the transpose of a (inner, rows) times b."""
        self._run((AS_IT_IS, TRANSPOSED), given, self._factor, False, many)

    def _run(
        self, turns: tuple[int, int], given: Operands, kind: int, add: bool, many: Many | None
    ) -> None:
        """Launch a product of the transposes: the library's matrices lie by columns."""
        rows, inner, columns, b, a, to = given
        each = Many(1, 0, 0, 0) if many is None else many
        apart = each.second, each.first, each.to
        first, second, third = (
            Matrix(element, pitch, far, aligned(place | far * self._bytes))
            for element, (place, pitch), far in zip(
                (self._factor, self._factor, kind), (a, b, to), apart, strict=True
            )
        )
        sizes = columns, rows, inner
        matmul = Matmul(turns, *sizes, first, second, third, each.heads, self._compute, add)
        multiply(matmul, self._device, (a[0], b[0], to[0]))
