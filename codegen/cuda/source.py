"""The CUDA source of a cell for a plan, and each of its directions alone, for reading."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...cellspec.cell import CellSpec
from ..derive import derive
from ..plan import CudaPlan
from ..render import Source, render


@dataclass(frozen=True)
class CudaSource(Source):
    """The text of a cell's CUDA kernels, complete with the hand-written headers.

    Attributes:
        name: the cell's name.
        code: the generated translation unit, both directions.
        headers: path and text of each header, by the path that `code` includes.
        plan: one plan for both directions: sizes, bytes, estimates, what binds.

    Example:
        >>> import rnnc
        >>> source = rnnc.cells.gru.cuda(heads=4, head_dim=32, gpu="A100")
        >>> print(source.plan.arch, source.plan.rows, "lib/mma/k_tile.cuh" in dict(source.headers))
        sm_80 4 True
    """

    plan: CudaPlan

    @property
    def kernels(self) -> dict[str, CudaSource]:
        """Each kernel that runs, by name, with the translation unit that has it: this one."""
        return dict.fromkeys(self.plan.kernel_names, self)

    @property
    def forward(self) -> str:
        """The forward alone, on one page: the equations, the generated functions, the kernel.

        A translation unit of its own, which compiles with `headers`. Every line is one of `code` or
        of a header: what only the backward uses is left out, and the hand-written header with the
        kernel stands in the place of its `#include`.

        Example:
            >>> import rnnc
            >>> text = rnnc.cells.elman.cuda(head_dim=16).forward
            >>> "h_next = tanh(g);" in text, "pointwise_backward" in text
            (True, False)
        """
        return _alone(self, "forward", "backward")

    @property
    def backward(self) -> str:
        """The backward alone, on one page, as `forward` is for the forward.

        Example:
            >>> import rnnc
            >>> text = rnnc.cells.elman.cuda(head_dim=16).backward
            >>> "d_g = d_h_next*(real(1) - h_next*h_next);" in text
            True
        """
        return _alone(self, "backward", "forward")


def cuda_source(cell: CellSpec, plan: CudaPlan) -> CudaSource:
    """The source of a cell's kernels for a plan.

    Args:
        cell: the cell.
        plan: of both directions; `source_for` takes a mixed one too.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.source import cuda_source
        >>> from rnnc.codegen.plan import AlternatingPlan
        >>> "rnnc_forward_step" in cuda_source(rnnc.cells.lstm, AlternatingPlan("sm_90", "float64")).code
        True
    """  # noqa: E501 - a line of the example
    source = render(derive(cell, activations=plan.save == "gates"), plan)
    return CudaSource(source.name, source.code, source.headers, plan)


def _alone(source: CudaSource, direction: str, other: str) -> str:
    """The source without what is only for the other direction."""
    text = source.code
    # Headers of this direction replace their first `#include`; those of the other are left out.
    shared = {
        f"lib/kernels/alternating/{name}.cuh" for name in ("workspace", "library", "fused_tile")
    }
    found = True
    while found:
        found = False
        for path, header in source.headers:
            include = f'#include "{path}"\n'
            if include not in text:
                continue
            if path in shared or path.endswith((f"_{direction}.cuh", f"/{direction}.cuh")):
                before, _, after = text.partition(include)
                header = header.replace("#pragma once\n\n", "")
                text, found = f"{before}\n{header}{after.replace(include, '')}", True
            elif path.endswith((f"_{other}.cuh", f"/{other}.cuh")):
                text, found = text.replace(include, ""), True
    sizes = rf"namespace rnnc::\w+_{other} \{{\n.*?\n\}}  // namespace rnnc::\w+_{other}\n"
    text = re.sub(sizes, "", text, flags=re.DOTALL)
    text = re.sub(rf"^constexpr int k{other.capitalize()}\w+ = .*\n", "", text, flags=re.MULTILINE)
    items = _items(text)
    kept = [item for item in items if not re.search(rf"\brnnc_{other}(_\w+)?\(", item)]
    return "\n\n".join(_used(kept)) + "\n"


def _used(items: list[str]) -> list[str]:
    """The items without functions that no other item calls, and without what only those call."""
    kept = []
    for item in items:
        names = re.findall(r"^RNNC_INLINE [^(]*?(\w+)\(", item, re.MULTILINE)
        calls = re.compile(rf"\b({'|'.join(names)})\b[(<]")
        if not names or any(calls.search(other) for other in items if other is not item):
            kept.append(item)
    return kept if len(kept) == len(items) else _used(kept)


def _items(text: str) -> list[str]:
    """The functions, types and groups of lines of a source: what empty lines part outside of
    braces, where a namespace's do not count.
    """
    items: list[str] = []
    lines: list[str] = []
    depth = 0
    for line in [*text.splitlines(), ""]:
        if line or depth:
            lines.append(line)
        elif lines:
            items.append("\n".join(lines))
            lines = []
        if not re.match(r"namespace |\}  // namespace ", line):
            depth += line.count("{") - line.count("}")
    return items
