"""A small set of calls for compute-sanitizer: a script. Odd sizes, so that every edge is walked."""

from __future__ import annotations

import sys

import rnnc
import torch
from rnnc.runtime.cuda import target
from rnnc.runtime.cuda.products import inputs
from rnnc.runtime.cuda.products.multiply import CudaMultiplier


class Plain(CudaMultiplier):
    """Multiplies without a library's kernels: they are not ours to check, and break racecheck."""

    calls = 0

    def mm(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The product of matrices, or of pairs of them."""
        self.calls += 1
        return (a.float()[..., None] * b.float()[..., None, :, :]).sum(-2).to(a.dtype)

    def mm_into(self, to: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Write the product to a tensor."""
        return to.copy_(self.mm(a, b))

    def add_mm(self, to: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Add the product, in place."""
        return to.add_(self.mm(a, b))


PLAIN = Plain(tf32=False)


def run(name: str, variant: str, dtype: torch.dtype, shape: tuple[int, ...], save: str) -> None:
    cell = rnnc.cells.get(name)
    batch, steps, heads, dim = shape
    dense, diagonal, bias = len(cell.dense_pairs), len(cell.diagonal_pairs), len(cell.bias_gates)

    def draw(*size: int) -> torch.Tensor:
        return (0.3 * torch.randn(size, device="cuda")).to(dtype).requires_grad_()

    over_time, last = rnnc.scan(
        cell,
        draw(batch, steps, heads, dim, len(cell.input_gates)),
        draw(dense, heads, dim, dim) if dense else None,
        draw(bias, heads, dim) if bias else None,
        R_diag=draw(diagonal, heads, dim) if diagonal else None,
        params={p.name: draw(heads, dim) for p in cell.params},
        variant=variant,
        save=save,
    )
    torch.autograd.backward([sum(s.float().sum() for s in (*over_time, *last))])
    torch.cuda.synchronize()


def main(variant: str, calls: str) -> None:
    target.multiplier = inputs.multiplier = lambda *_: PLAIN
    shared = variant in ("cluster", "grid")  # by several blocks
    dims = (104, 72, 77) if shared else (40, 16, 13)
    cells = ("lstm",) if calls == "smallest" else ("lstm", "slstm", "fastgrnn", "indrnn")
    for name in cells:
        for dtype, dim in zip((torch.bfloat16, torch.float32, torch.bfloat16), dims, strict=True):
            for save in ("gates", "states"):
                try:
                    run(name, variant, dtype, (9 if shared else 5, 4, 2, dim), save)
                except rnnc.PlanError as error:
                    if not shared:
                        raise
                    print(f"no plan: {error}")
    run("lstm", variant, torch.bfloat16, (1, 1, 1, 256 if shared else 64), "gates")
    assert PLAIN.calls, "the products of the calls went elsewhere: replace what multiplies now"
    print("done")


main(*sys.argv[1:])
