"""Matrix products of a program, by the library of the device."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import torch

from ...program.ops import Addressed, Name, Running
from ...program.recorder import issue
from ..driver.cublas import workspace_bytes
from ..driver.matmul import Matmul, Multiplies, multiplies
from ..driver.streams import current_stream, is_capturing
from ..memory.constants import lasting_workspace


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
