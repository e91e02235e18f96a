"""The notebooks: executed here, and written as Markdown with their outputs.

They are committed without outputs. Each runs in a process of its own, and one that fails ends the
build.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from traitlets.config import Config

_HERE = Path(__file__).parent
ROOT = _HERE.parents[1]
FOLDER = ROOT / "examples" / "notebooks"
_SECONDS = 240  # a notebook takes less than 60
_ADDRESSES = re.compile(r" at 0x[0-9a-f]+")


def write(output: Path) -> None:
    """Execute all notebooks, and write a page and the pictures of each.

    Args:
        output: the folder of the site's pages.
    """
    folder = output / "notebooks"
    folder.mkdir(parents=True)
    for file in sorted(FOLDER.glob("*.ipynb")):
        text, pictures = executed(file)
        (folder / f"{file.stem}.md").write_text(text, encoding="utf-8")
        for name, content in pictures.items():
            (folder / name).write_bytes(content)


def executed(file: Path) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook with its outputs, and its named pictures.

    Args:
        file: a notebook.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell of it fails.
    """
    notebook = nbformat.read(file, as_version=4)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "MATPLOTLIBRC": str(_HERE / "matplotlibrc")}
    # Files in place of ports: the build opens no socket of the network.
    client = NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3")
    client.create_kernel_manager().transport = "ipc"
    client.execute(env=environment)
    _take_out_messages(notebook)
    settings = Config()
    settings.ExtractOutputPreprocessor.enabled = True
    settings.CoalesceStreamsPreprocessor.enabled = True
    settings.MarkdownExporter.exclude_input_prompt = True
    settings.MarkdownExporter.exclude_output_prompt = True
    exporter = MarkdownExporter(
        config=settings,
        extra_template_basedirs=[str(_HERE / "templates")],
        template_name="notebook",
    )
    text, resources = exporter.from_notebook_node(
        notebook, resources={"unique_key": file.stem, "output_files_dir": ""}
    )
    return _ADDRESSES.sub("", text), resources["outputs"]


def _take_out_messages(notebook: nbformat.NotebookNode) -> None:
    """Print what went to the error stream: a slow machine has messages there that others lack."""
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        outputs = cell.outputs
        for output in outputs:
            if output.get("name") == "stderr":
                print(output.text, file=sys.stderr, end="")
        cell.outputs = [output for output in outputs if output.get("name") != "stderr"]
