"""Trees of rnnc to compare: a folder with the package, and what its cases left on disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
_BINARIES = (".so", ".cubin")
_SEAL = b"\nrnnc 1 sha256 "  # what the last line of a file of the cache begins with
_TOOK = re.compile(rb"Compile time = [\d.]+ ms")  # in what the compiler says of a kernel
_SECONDS_PER_CASE = 60

Record = dict[str, Any]


def copy_package(checkout: Path, to: Path) -> None:
    """Copy the rooms of a checkout into one package, as a wheel has them.

    Args:
        checkout: the folder with pyproject.toml.
        to: the folder that gets `rnnc`.
    """
    project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))
    rooms = project["tool"]["setuptools"]["package-dir"]
    for name, folder in sorted(rooms.items()):  # the front door first
        target = to.joinpath(*name.split("."))
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(checkout / folder, target, ignore=skipped, dirs_exist_ok=True)


class Tree(NamedTuple):
    """A package, and the folder of its records, kernels and notes.

    Attributes:
        package: the folder that holds `rnnc`, as an absolute path.
        work: the folder for what its cases leave.
    """

    package: Path
    work: Path

    def run(self, device: str, first: int, end: int, repeat: int) -> list[Record]:
        """Run cases in a new process.

        Args:
            device: "cpu" or "cuda".
            first: the first case.
            end: the case after the last.
            repeat: timed calls; 0 for none.

        Raises:
            RuntimeError: the process fails, or imports another rnnc.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        output = self.work / f"record-{first}.jsonl"  # several processes may run
        output.unlink(missing_ok=True)
        numbers = map(str, (first, end, repeat))
        path = os.pathsep.join([str(self.package), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, str(HERE / "record.py"), device, *numbers, str(output)],
            env=os.environ
            | {
                "PYTHONPATH": path,
                "RNNC_CACHE_DIR": str(self.work / "cache"),
                "RNNC_SAME_SOURCES": str(self.work / "sources"),
                "CXX": f"{sys.executable} {HERE / 'compiler.py'} {os.environ.get('CXX', 'g++')}",
            },
            capture_output=True,
            text=True,
            timeout=_SECONDS_PER_CASE * (end - first),
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{self.package}: cases {first} to {end}\n{done.stderr[-3000:]}")
        records = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
        for record in records:
            if not Path(record["package"]).is_relative_to(self.package):
                raise RuntimeError(f"{record['package']} was imported, not that of {self.package}")
        return records

    def sources(self) -> set[str]:
        """Return the names of the sources that were compiled, with their digests."""
        path = self.work / "sources"
        return set(path.read_text("utf-8").splitlines()) if path.exists() else set()

    def binaries(self) -> dict[str, list[str]]:
        """Return digests of the compiled kernels, by cell.

        A file is named by what its source is made from, which a commit may change; so contents are
        compared, without the digest at their end, which holds the name.
        """
        found = defaultdict(list)
        for path in sorted((self.work / "cache").glob("*")):
            if path.suffix in _BINARIES:
                content, seal, rest = path.read_bytes().rpartition(_SEAL)
                digest = hashlib.sha256(_TOOK.sub(b"", content if seal else rest)).hexdigest()
                found[f"{path.stem.rpartition('-')[0]}{path.suffix}"].append(digest)
        return {name: sorted(digests) for name, digests in found.items()}
