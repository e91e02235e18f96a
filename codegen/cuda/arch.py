"""GPU architectures as the CUDA compiler names them, and the matrix instructions in its output."""

from __future__ import annotations

import re

from .limits import PRESETS, Limits, UnknownGpuError


def limits_of_arch(arch: str) -> Limits:
    """The limits of the first preset of an architecture.

    Args:
        arch: such as `sm_80`; `sm_90a` and `sm_100f` are `sm_90` and `sm_100` with more
            instructions.

    Raises:
        UnknownGpuError: there is no preset of this architecture.

    Example:
        >>> from rnnc.codegen.cuda.arch import limits_of_arch
        >>> limits_of_arch("sm_100a").name
        'B200'
    """
    plain = re.sub(r"(?<=\d)[af]$", "", arch)
    for limits in PRESETS:
        if limits.arch == plain:
            return limits
    known = dict.fromkeys(p.arch for p in sorted(PRESETS, key=lambda p: p.capability))
    raise UnknownGpuError(
        f"architecture {arch!r}",
        "no preset of a GPU with this architecture",
        f"one of {', '.join(known)}, or one with a suffix, as in sm_90a",
        "sm_80 or sm_90a",
    )


def matrix_instructions(ptx: str) -> dict[str, int]:
    r"""The number of matrix instructions in each kernel, by its name.

    Counted in the text: an instruction in a loop counts once.

    Args:
        ptx: the compiler's output.

    Example:
        >>> from rnnc.codegen.cuda.arch import matrix_instructions
        >>> matrix_instructions(".visible .entry k(\n) {\n mma.sync.aligned.m16n8k16 {...};\n}")
        {'k': 1}
    """
    # The text before the first entry, then the name and the text of each entry.
    _, *parts = re.split(r"\.entry\s+(\w+)", ptx)
    return {
        name: len(re.findall(r"^\s*mma\.sync\b", text, re.MULTILINE))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
