"""`compile_cell`: the one way from a cell and a plan to loaded kernels, for every target."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from ...cellspec.cell import CellSpec
from ...codegen.cpu.plan import CpuPlan
from ...codegen.cuda.kernel_plan import KernelPlan
from ...codegen.render import Source, derive_for, render
from .files import Cached, cached, file_name
from .log import log
from .long_work import said_if_long, tell_of_long_body
from .memo import package_digest

Library = TypeVar("Library")


class Toolchain(Protocol[Library]):
    """A compiler of sources, and a loader of its products."""

    @property
    def language(self) -> str:
        """Language of the sources, as messages name it."""

    @property
    def suffix(self) -> str:
        """Suffix of the files."""

    @property
    def arch(self) -> str:
        """Architecture of the binaries: that of a GPU, or the processor's."""

    def identity(self, plan: CpuPlan | KernelPlan) -> tuple[object, ...]:
        """Return all that a binary depends on besides its source: compiler, flags, processor."""

    def build(self, source: Source) -> bytes:
        """Return the content of a file with the compiled kernels."""

    def load(self, found: Cached) -> Library:
        """Load the kernels in such a file."""

    def facts(self, library: Library) -> str:
        """Return the compiler's facts of the kernels in a few words; empty if there are none."""


def compile_cell(
    cell: CellSpec, plan: CpuPlan | KernelPlan, toolchain: Toolchain[Library]
) -> Library:
    """Derive, schedule, render, build and load the kernels of a plan.

    The file is found by all that its text depends on: the cell, the plan, this package and the
    toolchain. So a start from the cache folder derives and renders nothing.

    `plan` is of both directions on the CPU, or of one direction on a GPU. The result is a library,
    or on a GPU a binary with its registers and spills.

    Raises:
        CompileError: there is no compiler, or it refused the source.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cpu.plan import CpuPlan
        >>> from rnnc.runtime.cpu.compile import CppToolchain
        >>> from rnnc.runtime.store.compiled import compile_cell
        >>> library = compile_cell(rnnc.cells.elman, CpuPlan(), CppToolchain())
        >>> library.rnnc_forward is not None
        True
    """

    def source() -> Source:
        pointwise = derive_for(cell, plan)
        tell_of_long_body(pointwise)
        return render(pointwise, plan)

    # The docstring of the cell is left out: it changes a comment and no code.
    made_from = f"{cell.fingerprint} {plan.as_compiled()!r} {package_digest()}"
    return _compiled(cell.name, made_from, plan, toolchain, source)


def compile_source(source: Source, toolchain: Toolchain[Library]) -> Library:
    """Build and load the kernels of a source, or find them built."""
    return _compiled(source.name, source.digest, source.plan, toolchain, lambda: source)


def _compiled(
    name: str,
    made_from: str,
    plan: CpuPlan | KernelPlan,
    toolchain: Toolchain[Library],
    source: Callable[[], Source],
) -> Library:
    key = repr((made_from, toolchain.identity(plan)))
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]

    seconds: list[float] = []
    what = f"{toolchain.language} of {kernels_in_words(name, plan)} for {toolchain.arch}"

    def make() -> bytes:
        log(logging.DEBUG, "compiling %s", what)
        begin = time.perf_counter()
        with said_if_long(
            f"deriving and compiling the {toolchain.language} of {name}",
            "Fewer operations in the cell take less.",
        ):
            content = toolchain.build(source())
        seconds.append(time.perf_counter() - begin)
        return content

    library = toolchain.load(cached(file_name(name, digest, toolchain.suffix), make))
    if seconds:
        facts = toolchain.facts(library)
        told = f": {facts}" if facts else ""
        log(logging.INFO, "compiled %s in %.1f s%s", what, seconds[0], told)
    else:
        log(logging.DEBUG, "found compiled: %s", what)
    return library


def kernels_in_words(name: str, plan: CpuPlan | KernelPlan) -> str:
    """Return a cell and the purpose of its kernels, in a few words."""
    words = [] if isinstance(plan, CpuPlan) else [f"{plan.kind} {plan.direction}"]
    options = {
        "reversed": plan.reverse,
        "single steps": getattr(plan, "single_step", False),
        "with lengths or resets": plan.masked,
    }
    return ", ".join([name, *words, plan.dtype, *(o for o, chosen in options.items() if chosen)])
