"""`rnnc build`: compiles a cell's CUDA kernels to files; the GPU need not be present."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import CellWord, DtypeOption, HeadDim, Heads, ReverseOption, Scalar, VariantOption


def build_command(
    cell: CellWord,
    arch: Annotated[
        str,
        typer.Option(help="Architectures by their CUDA names, separated by commas."),
    ] = "sm_80,sm_90a,sm_100a,sm_120",
    heads: Heads = 1,
    head_dim: HeadDim = 64,
    dtype: DtypeOption = Scalar.BFLOAT16,
    variant: VariantOption = "auto",
    reverse: ReverseOption = False,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the files; CELL_cuda by default.")
    ] = None,
) -> None:
    """Compile a cell's CUDA kernels with NVRTC, which needs no GPU, and write them to files.

    Writes the source, PTX and cubin for each architecture, and the headers. Forward and backward
    have files of their own where their plans differ. The table counts the matrix instructions in
    each kernel's PTX. Binaries that are in the cache are not compiled again.
    """
    from ..build import build_files

    options = {"dtype": dtype.value, "variant": variant, "reverse": reverse}
    archs = [name.strip() for name in arch.split(",")]
    build_files(cell, archs, out, heads=heads, head_dim=head_dim, **options)
