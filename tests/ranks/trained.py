"""Checks of the example that trains a language model on several ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


def check_trained_language_models(mesh):
    """The losses of each style are those of one process: same batches, same order."""
    from language_model.models import Size
    from language_model.ranks import STYLES, RanksTraining
    from language_model.tokens import Tokens
    from language_model.training import Settings

    size = Size(128, 2, 64, 16, 4)
    tokens = torch.randint(64, (2000,), generator=torch.Generator().manual_seed(0)).to(torch.int16)
    given = Tokens(tokens, tokens[:40], 64, {})
    settings = Settings("lstm", "tiny", 16, 4, 50, 3e-3)
    losses = {}
    for style in (None, *STYLES):
        own = None if style is None else mesh
        told = settings, size, given, mesh.device_type, style, own
        training = RanksTraining(*told, single=True)
        losses[style] = torch.stack([training.advance() for _ in range(6)])
    assert losses[None][-1] < losses[None][0]
    for style in STYLES:
        own, wanted = losses[style], losses[None]
        assert torch.allclose(own, wanted, rtol=1e-4, atol=0), (style, own, wanted)
