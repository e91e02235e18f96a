"""Questions of the page: which text to run, which of its cells to show, and for which sizes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

# Longer texts are no cells; they would be copied with each edit.
LONGEST = 200_000


@dataclass(frozen=True)
class Question:
    """A text with cells, and the sizes of the plan.

    Attributes:
        code: the text.
        file: its name, for messages.
        folder: where it runs, first on Python's path.
        cell: the name of the cell to show; the text's last cell if it has none of that name.
        heads: of the plan.
        head_dim: of the plan.
        batch: of the plan.
        dtype: of the plan.
        gpu: the name of a GPU.
        variant: the kind of plan, or "auto".
    """

    code: str
    file: str = "cell.py"
    folder: str = "."
    cell: str = ""
    heads: int = 1
    head_dim: int = 64
    batch: int = 16
    dtype: str = "bfloat16"
    gpu: str = "H200"
    variant: str = "auto"

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Question:
        """The question that `to_json` wrote.

        Args:
            text: one line.

        Example:
            >>> from rnnc.explore.question import Question
            >>> Question.from_json(Question("x").to_json()) == Question("x")
            True
        """
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Remark:
    """A message for the person who typed the text.

    Attributes:
        found: what is wrong.
        wanted: what should be there.
        write: what to write instead.
        line: of the text, or 0.
    """

    found: str
    wanted: str = ""
    write: str = ""
    line: int = 0
