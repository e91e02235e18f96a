"""The package says things once: few pairs of places have six or more equal lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# Lower it when a pair has gone. `python tests/duplicates.py` lists them.
MOST = 32

BODY = "".join(f"    value_{number} = {number}\n" for number in range(7))


def test_the_package_has_no_more_equal_code_than_before(duplicates):
    pairs = duplicates.pairs_in(duplicates.files_in())
    assert len(pairs) <= MOST, "\n".join(map(str, pairs))


@pytest.fixture
def pairs_of(duplicates: ModuleType, tmp_path: Path) -> Callable[..., list[Any]]:
    """Give the pairs in files with these texts."""

    def written(**texts: str) -> list[Any]:
        for path in tmp_path.glob("*.py"):
            path.unlink()
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
        return duplicates.pairs_in(duplicates.files_in(["."], tmp_path))

    return written


def test_overlapping_windows_are_one_pair(pairs_of):
    (pair,) = pairs_of(a=f"def f():\n{BODY}", b=f"def g():\n{BODY}    return 1\n")
    assert (pair.first.file, pair.second.file, pair.lines) == ("a.py", "b.py", 7)
    assert (pair.first.number, pair.first.text) == (2, "value_0 = 0")


def test_three_places_are_three_pairs(pairs_of):
    assert len(pairs_of(**{name: f"def {name}():\n{BODY}" for name in "abc"})) == 3


def test_two_places_of_one_file_are_a_pair(pairs_of):
    assert len(pairs_of(a=f"def f():\n{BODY}def g():\n{BODY}")) == 1


def test_blank_lines_comments_imports_and_indentation_do_not_count(pairs_of):
    other = BODY.replace("\n", "\n\n        # a comment\n").replace("    value", "        value")
    assert len(pairs_of(a=f"def f():\n{BODY}", b=f"class A:\n    def f():\n{other}")) == 1
    imports = "from a import (\n" + "".join(f"    name_{i},\n" for i in range(9)) + ")\n"
    assert not pairs_of(a=f"{imports}x = 1\n", b=f"{imports}y = 2\n")


def test_five_equal_lines_are_no_pair_and_a_window_ends_with_its_file(pairs_of):
    five = "".join(f"value_{number} = {number}\n" for number in range(5))
    assert not pairs_of(a=five, b=five, c=five)


def test_a_line_that_repeats_is_no_pair_with_itself(pairs_of):
    assert not pairs_of(a="x += 1\n" * 11)
