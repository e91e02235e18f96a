"""Builds Haste for the torch of this environment and installs it, for `rnnc bench --peers`.

    python benchmarks/peers/haste.py [--source FOLDER]

Haste (github.com/lmnt-com/haste, Apache-2.0) is at a fixed commit. Its Makefile names architectures
that CUDA 13 no longer compiles for, and C++11, which torch's headers no longer accept. These flags
are changed, the changes are printed, and no other line is. It needs git (or `--source`), make, g++,
nvcc and a GPU.
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import torch
import typer

COMMIT = "ceba32ecd3735062f25e56b08ef3143caa086753"
_CPP = "NVCC_FLAGS := -std=c++11 -x cu"
_GPUS = (
    "-gencode arch=compute_37,code=compute_37 -gencode arch=compute_60,code=compute_60"
    " -gencode arch=compute_70,code=compute_70"
)


def patched(makefile: str, capability: str) -> str:
    """Haste's Makefile with the flags of one GPU."""
    for flags in (_GPUS, _CPP):
        if flags not in makefile:
            raise SystemExit(f"no {flags!r} in Haste's Makefile: is it another commit?")
    new = makefile.replace(_GPUS, f"-gencode arch=compute_{capability},code=sm_{capability}")
    return new.replace(_CPP, _CPP.replace("11", "17"))


def changes(old: str, new: str) -> str:
    """The changed lines, as diff shows them."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "Makefile", "Makefile", n=0)
    return "\n".join(line.rstrip() for line in lines)


def _source(folder: Path | None, target: Path) -> None:
    if folder is not None:
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns(".git"))
        return
    subprocess.run(["git", "clone", "-q", "https://github.com/lmnt-com/haste", target], check=True)
    subprocess.run(["git", "-C", target, "checkout", "-q", COMMIT], check=True)


def _environment() -> dict[str, str]:
    """The paths of CUDA's headers and libraries, also those that came with torch's wheels."""
    nvcc = shutil.which("nvcc")
    home = os.environ.get("CUDA_HOME") or (nvcc and str(Path(nvcc).resolve().parents[1]))
    wheels = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13"
    include = os.pathsep.join(filter(None, [os.environ.get("CPATH"), str(wheels / "include")]))
    # Its setup.py calls make once more, which then only prints.
    more = {"CPATH": include, "MAKEFLAGS": "n"} | ({"CUDA_HOME": home} if home else {})
    return os.environ | more


def _library(folder: Path, environment: dict[str, str]) -> None:
    """What `make haste` does, its files on all cores."""
    asked = ["make", "-n", "haste"]
    done = subprocess.run(
        asked, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    *files, archive = [line for line in done.stdout.splitlines() if line.strip()]

    def run(line: str) -> None:
        subprocess.run(line, shell=True, cwd=folder, env=environment, check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, files))
    run(archive)


def main(
    source: Annotated[
        Path | None, typer.Option(help="A folder with Haste's files; otherwise it is cloned.")
    ] = None,
    capability: Annotated[
        str | None, typer.Option(help="Of the GPU, such as 90; this machine's if not given.")
    ] = None,
    only_library: Annotated[
        bool, typer.Option("--only-library", help="Build the kernels, without torch's part.")
    ] = False,
) -> None:
    """Build Haste with this environment's torch and nvcc, and install it."""
    if capability is None:
        capability = "".join(map(str, torch.cuda.get_device_capability()))
    environment = _environment()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "haste"
        _source(source, folder)
        old = (folder / "Makefile").read_text("utf-8")
        new = patched(old, capability)
        (folder / "Makefile").write_text(new, "utf-8")
        print(changes(old, new))
        _library(folder, environment)
        if only_library:
            return
        # As its Makefile does it.
        parts = [
            (folder / "build" / n).read_text("utf-8") for n in ("common.py", "setup.pytorch.py")
        ]
        (folder / "setup.py").write_text("".join(parts), "utf-8")
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run(
            [*install, "--no-build-isolation", "."], cwd=folder, env=environment, check=True
        )
    test = "import haste_pytorch; print('Haste', haste_pytorch.__version__, 'is installed')"
    subprocess.run([sys.executable, "-c", test], check=True)


if __name__ == "__main__":
    typer.run(main)
