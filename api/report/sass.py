"""SASS, the machine code of a kernel, with the lines of the source that each instruction came from.

nvdisasm writes it. The package `nvidia-cuda-nvdisasm` has it, and so has a CUDA toolkit.
"""

from __future__ import annotations

import re
import shutil
import struct
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
        file.write(with_sizes(cubin))
        file.flush()
        done = subprocess.run(
            [program, "--print-line-info-inline", "--print-code", file.name],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    if done.returncode:
        # The page names no path of the machine that wrote it.
        raise OSError(done.stderr.replace(file.name, "the binary").strip()[:200])
    return done.stdout


_SYMBOLS, _FUNCTION = 2, 2  # the numbers of a symbol table and of a function's symbol in ELF


def with_sizes(cubin: bytes) -> bytes:
    """A binary in which no function ends after its section.

    NVRTC 13.0.88 writes a negative size for a function that is not inlined, such as the trap of a
    watchdog. nvdisasm refuses such a binary: 13.0.85, 13.2.51, 13.4.92 and 13.5.37 do. Here the
    function ends where the next one of its section begins, or with the section.

    Args:
        cubin: an ELF file of 64 bits, for reading only.
    """
    data = bytearray(cubin)
    (table,) = struct.unpack_from("<Q", data, 0x28)
    length, count = struct.unpack_from("<HH", data, 0x3A)
    # Of a section: name, type, flags, address, offset, size, link, info, alignment, entry's size.
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + length * i) for i in range(count)]
    for section in sections:
        if section[1] != _SYMBOLS:
            continue
        places = range(section[4], section[4] + section[5], section[9])
        # Of a symbol: name, type, visibility, section, value, size.
        symbols = [(place, *struct.unpack_from("<IBBHQQ", data, place)) for place in places]
        functions = [s for s in symbols if s[2] & 15 == _FUNCTION and 0 < s[4] < count]
        for place, _, _, _, home, value, size in functions:
            end = sections[home][5]
            if value + size > end:
                following = [s[5] for s in functions if s[4] == home and s[5] > value]
                struct.pack_into("<Q", data, place + 16, min([end, *following]) - value)
    return bytes(data)


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
