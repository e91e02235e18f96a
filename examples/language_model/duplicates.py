"""Files that repeat an earlier one: the same bytes, or most of the same lines."""

from collections import Counter, defaultdict
from heapq import nsmallest
from itertools import chain
from zlib import crc32

SHORTEST_LINE = 8  # bytes: shorter lines say little about a file
COMMON = 50  # files: a line that more of them have, such as one of a licence, is not compared
FEWEST_LINES = 5  # that a file needs to be compared
SHARED = 0.8  # of the lines that one of two near duplicates has, what both have
SKETCH = 8  # lines of a file, by which files that may be near duplicates are found


def exact(digests: list[str]) -> set[int]:
    """The indices of texts whose digest an earlier one has."""
    first: dict[str, int] = {}
    return {i for i, digest in enumerate(digests) if first.setdefault(digest, i) != i}


def near(contents: list[bytes]) -> dict[int, int]:
    """Texts that are near duplicates, each with the earlier text that it repeats.

    Two texts are near duplicates if at least `SHARED` of their distinct lines, without indentation
    and without common lines, are in both.
    """
    all_lines = [distinct_lines(content) for content in contents]
    spread = Counter(chain.from_iterable(all_lines))
    rare = [{line for line in lines if spread[line] <= COMMON} for lines in all_lines]
    copies: dict[int, int] = {}
    with_line: dict[int, list[int]] = defaultdict(list)
    for i, own in enumerate(rare):
        if len(own) < FEWEST_LINES:
            continue
        # The smallest hashes are a sample of the lines, and similar texts have similar samples.
        sketch = nsmallest(SKETCH, own)
        candidates = sorted({j for line in sketch for j in with_line[line]})
        copy = next((j for j in candidates if similar(own, rare[j])), None)
        if copy is not None:
            copies[i] = copy
            continue
        for line in sketch:
            with_line[line].append(i)
    return copies


def distinct_lines(content: bytes) -> set[int]:
    lines = (line.strip() for line in content.splitlines())
    return {crc32(line) for line in lines if len(line) >= SHORTEST_LINE}


def similar(a: set[int], b: set[int]) -> bool:
    both = len(a & b)
    return both >= SHARED * (len(a) + len(b) - both)
