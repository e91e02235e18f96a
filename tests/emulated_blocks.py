"""Kernels of block, cluster and grid plans as C++, with a fiber for each lane of all blocks.

What NVRTC would compile runs on addresses of tensors of the CPU, so that values of calls can be
compared without a GPU. Headers of PTX have twins here. Products are exact.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rnnc.codegen.cuda.source import kernel_source
from rnnc.runtime.cuda import launchers
from rnnc.runtime.cuda.wavefront import run

_ROOM = Path(__file__).with_name("emulated_blocks")
_STEP = Path(__file__).with_name("emulated")
_TWINS = {
    **{f"lib/ptx/{name}.cuh": _STEP / f"lib/ptx/{name}.cuh" for name in ("element", "math", "mma")},
    **{path.relative_to(_ROOM).as_posix(): path for path in _ROOM.rglob("*.cuh")},
}
# Blocks that the device holds at once, for kernels that ask: some have several tiles, and wait.
RESIDENT = 3
# Instructions that the library writes among other code.
_CHANGES = (
    (r"extern __shared__ __align__\(128\) char shared\[\];", "extern char* shared;"),
    (
        r'asm volatile\("bar.sync %0, %1;" ::"r"\((.*?)\), "n"\((.*?)\) : "memory"\);',
        r"emulation::named(\1, \2);",
    ),
    (
        r'asm volatile\("bar.arrive %0, %1;" ::"r"\((.*?)\), "n"\((.*?)\) : "memory"\);',
        r"emulation::arrive(\1, \2);",
    ),
    (
        r"(?s)(ld_global_weight\(.*?\) \{\n).*?\n}\n",
        r"""\1  u32 word = 0;
  if (valid) memcpy(&word, from, head_dim % kPack && !full ? 2 : 4);
  return prepare_weight(word, rounding);
}
""",
    ),
    (
        r"(?s)(ld_shared_fragment\(.*?\) \{\n).*?\n}\n",
        r"\1  memcpy(words, shared + from, sizeof words);\n}\n",
    ),
)


def _changed(text: str) -> str:
    for pattern, replacement in _CHANGES:
        text = re.sub(pattern, replacement, text)
    return text


def _library(source: Any, folder: Path) -> Any:
    """The kernel of a source as a function of arguments, grid, threads and blocks of a cluster."""
    root = folder / source.digest[:16]
    twins = {path: file.read_text() for path, file in _TWINS.items()}
    for path, text in {**dict(source.headers), **twins}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_changed(text))
    code = re.sub(
        r'extern "C" __global__ void\s+__launch_bounds__\(.*?\)', "static void", source.code
    )
    code = code.replace('extern "C" __global__ void', "static void")
    name = f"rnnc_{source.plan.direction}"
    code = f"""#include "blocks.h"
{code}
extern "C" void run(const void* arguments, unsigned x, unsigned y, unsigned z, unsigned threads,
                    unsigned cluster) {{
  emulation::launch({name}, arguments, Dim{{x, y, z}}, threads, cluster);
}}
extern "C" void tell(void (*handover)(const unsigned*, unsigned)) {{
  emulation::handover = handover;
}}
"""
    library = root / "kernel.so"
    if not library.exists():
        (root / "kernel.cpp").write_text(code)
        if not (folder / "blocks.h.gch").exists():
            # Parsed once for all kernels: this takes as long as the rest of a compilation.
            shutil.copy(_ROOM / "blocks.h", folder)
            _compiled(folder, "-x c++-header blocks.h -o blocks.h.gch")
        _compiled(root, f"-shared -I . -I {folder} kernel.cpp -o made.so")
        (root / "made.so").rename(library)
    return ctypes.CDLL(str(library))


def _compiled(folder: Path, words: str) -> None:
    # Names of one library are not those of another.
    command = f"g++ -std=c++20 -O1 -w -fPIC -fno-gnu-unique {words}".split()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


@contextmanager
def emulated(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[list[Any]]:
    """Let calls of the simulated GPU compute; gives the plans of their kernels."""
    libraries: dict[Any, Any] = {}
    plans: list[Any] = []

    def load(cell: Any, plan: Any, name: str, device: Any) -> Any:
        key = (cell, plan.as_compiled())
        if key not in libraries:
            libraries[key] = _library(kernel_source(cell, plan), folder)
        plans.append(plan)

        def launch(
            blocks: tuple[int, int, int], arguments: ctypes.Structure, lane: int | None = None
        ) -> None:
            cluster = getattr(plan, "cluster", 1)
            libraries[key].run(ctypes.byref(arguments), *blocks, plan.threads, cluster)

        launch.resident = RESIDENT  # type: ignore[attr-defined]
        launch.library = libraries[key]  # type: ignore[attr-defined]
        return launch

    for room in (launchers, run):
        patch.setattr(room, "load_kernel", load)
    patch.setattr(launchers, "put_in_order", lambda tensor: tensor.contiguous())
    yield plans
