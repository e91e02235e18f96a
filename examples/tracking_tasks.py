"""The tasks of state_tracking.py: strings of tokens, and a label after each token or some of them.

Each function draws strings: (count, length) tokens and labels, NO_LABEL where nothing is asked.
"""

import itertools
from dataclasses import dataclass

import torch
from parity import DEVICE, NO_LABEL, Strings, strings
from torch import Tensor

CYCLE, DIGITS, OPERATORS, KEYS, VALUES = 5, 5, 3, 16, 16
PERMUTATIONS = torch.tensor(list(itertools.permutations(range(5))))


def arithmetic(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Digits and operators in turns; after each digit the value, products before sums, modulo 5."""
    tokens = torch.randint(0, DIGITS, (count, length), generator=generator)
    tokens[:, 1::2] = DIGITS + torch.randint(
        0, OPERATORS, tokens[:, 1::2].shape, generator=generator
    )
    labels = torch.full_like(tokens, NO_LABEL)
    closed, term = torch.zeros(count, dtype=torch.long), tokens[:, 0]
    labels[:, 0] = term
    for t in range(2, length, 2):
        digit, operator = tokens[:, t], tokens[:, t - 1] - DIGITS
        closed = torch.where(operator < 2, closed + term, closed)
        term = torch.where(operator < 2, torch.where(operator == 0, digit, -digit), term * digit)
        closed, term = closed % DIGITS, term % DIGITS
        labels[:, t] = (closed + term) % DIGITS
    return tokens.to(DEVICE), labels.to(DEVICE)


def cycle(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Moves back, none and forward on a cycle of five places; after each move the place."""
    moves = torch.randint(0, 3, (count, length), generator=generator)
    return moves.to(DEVICE), ((moves - 1).cumsum(1) % CYCLE).to(DEVICE)


def permutations(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Permutations of five things; after each one the product of all so far (S5)."""
    tokens = torch.randint(0, len(PERMUTATIONS), (count, length), generator=generator)
    powers = 5 ** torch.arange(5)
    number = torch.zeros(5**5, dtype=torch.long)
    number[PERMUTATIONS @ powers] = torch.arange(len(PERMUTATIONS))
    order, labels = torch.arange(5).expand(count, 5), torch.empty_like(tokens)
    for t in range(length):
        order = order.gather(1, PERMUTATIONS[tokens[:, t]])
        labels[:, t] = number[order @ powers]
    return tokens.to(DEVICE), labels.to(DEVICE)


def recall(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Keys and values in turns, a table of its own per string; at a key seen before, its value."""
    table = torch.randint(0, VALUES, (count, KEYS), generator=generator)
    keys = torch.randint(0, KEYS, (count, (length + 1) // 2), generator=generator)
    values = table.gather(1, keys)
    tokens = torch.stack([keys, KEYS + values], 2).flatten(1)[:, :length]
    earlier = (keys[:, :, None] == keys[:, None, :]).tril(-1).any(2)
    labels = torch.full_like(tokens, NO_LABEL)
    labels[:, ::2] = torch.where(earlier, values, NO_LABEL)
    return tokens.to(DEVICE), labels.to(DEVICE)


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        title: its name in the picture.
        alphabet: what the tokens are.
        asked: what the labels are.
        tokens: how many tokens there are.
        classes: how many labels there are.
        strings: draws strings of a length, and their labels.
    """

    title: str
    alphabet: str
    asked: str
    tokens: int
    classes: int
    strings: Strings

    def chance(self) -> float:
        """The accuracy of the best answer that does not look at the string."""
        _, labels = self.strings(2048, 63, torch.Generator().manual_seed(0))
        counts = labels[labels != NO_LABEL].bincount(minlength=self.classes)
        return (counts.max() / counts.sum()).item()


TASKS = {
    "parity": Task("parity", "2 bits", "the number of ones is odd", 2, 2, strings),
    "arithmetic": Task(
        "modular arithmetic, no brackets",
        "5 digits, 3 operators",
        "the value modulo 5",
        DIGITS + OPERATORS,
        DIGITS,
        arithmetic,
    ),
    "cycle": Task("cycle navigation", "3 moves", "the place, one of 5", 3, CYCLE, cycle),
    "s5": Task("word problem of S5", "120 permutations", "their product", 120, 120, permutations),
    "recall": Task(
        "associative recall",
        f"{KEYS} keys, {VALUES} values",
        "the value of a key seen before",
        KEYS + VALUES,
        VALUES,
        recall,
    ),
}
