"""Checks of the example that trains a language model on several ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


def check_trained_language_models(mesh):
    """The losses of each style are those of one process: same batches, same order.

    On GPUs over 50 steps, and in bfloat16 within what three seeds differ by.
    """
    from language_model.models import Size
    from language_model.ranks import STYLES, RanksTraining
    from language_model.tokens import Tokens
    from language_model.training import Settings

    size = Size(128, 2, 64, 16, 4)
    tokens = torch.randint(64, (2000,), generator=torch.Generator().manual_seed(0)).to(torch.int16)
    given = Tokens(tokens, tokens[:40], 64, {})
    on_gpu = mesh.device_type == "cuda"
    steps = 50 if on_gpu else 6

    def losses(style=None, seed=0, single=True):
        settings = Settings("lstm", "tiny", 16, 4, 50, 3e-3, seed=seed)
        own = None if style is None else mesh
        told = settings, size, given, mesh.device_type, style, own
        training = RanksTraining(*told, single=single)
        return torch.stack([training.advance() for _ in range(steps)])

    wanted = losses()
    assert wanted[-1] < wanted[0]
    for style in STYLES:
        found = losses(style)
        assert torch.allclose(found, wanted, rtol=1e-4, atol=0), (style, found, wanted)
    if on_gpu:
        ends = torch.stack([losses(seed=seed, single=False)[-10:].mean() for seed in range(3)])
        for style in STYLES:
            end = losses(style, single=False)[-10:].mean()
            assert (end - ends[0]).abs() <= ends.max() - ends.min(), (style, end, ends)
