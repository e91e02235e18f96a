"""SASS, the machine code of a kernel, with the lines of the source that each instruction came from.

nvdisasm writes it. The package `nvidia-cuda-nvdisasm` has it, and so has a CUDA toolkit.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path, PurePosixPath

from .ptx import PtxLine

INSTALL = "pip install nvidia-cuda-nvdisasm"

_FROM = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(.*;)")


def nvdisasm() -> str | None:
    """The path of nvdisasm: that of the toolkit, or of the package; None without either."""
    packages = Path(sysconfig.get_paths()["purelib"])
    installed = sorted(packages.glob("nvidia/*/bin/nvdisasm"))
    return shutil.which("nvdisasm") or (str(installed[-1]) if installed else None)


def disassembled(program: str, cubin: bytes) -> str:
    """The text of a binary, with the chain of inlined calls before each instruction.

    Args:
        program: nvdisasm.
        cubin: compiled with line information.

    Raises:
        OSError: the program does not run, or refuses the binary.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [program, "--print-line-info-inline", "--print-code", file.name],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        # The page names no path of the machine that wrote it.
        raise OSError(done.stderr.replace(file.name, "the binary").strip()[:200])
    return done.stdout


def sass_lines(text: str, name: str) -> tuple[PtxLine, ...]:
    """The instructions of a disassembled binary.

    Args:
        text: of `disassembled`.
        name: the generated source's file.
    """
    found: list[PtxLine] = []
    chain: list[tuple[str, int]] = []
    ended = False  # whether the next place begins another chain
    for line in text.splitlines():
        place = _FROM.match(line)
        if place:
            chain = [] if ended else chain
            ended = False
            chain.append((PurePosixPath(place[1]).name, int(place[2])))
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction:
            ended = True
            own = next((number for file, number in chain if file == name), 0)
            found.append(PtxLine(instruction[1], own, chain[0][0] if chain else ""))
    return tuple(found)
